"""Switches a stream to its new version, watches it, and goes back: carries out the steps of an upgrade's journal."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from streamwarden import disk
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import CheckpointError, LeaseHeld, StoreError, StreamwardenError
from streamwarden.lifecycle.upgrades.journal import Judged, Seen, Step, Upgrade, judged
from streamwarden.services.exchanges.exchanging import exchange
from streamwarden.services.exchanges.journals import interrupted
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.services.upgrades.journals import CHANGED, NEW, OLD, write_journal
from streamwarden.services.upgrades.taking_over import TakeOver, fork_of, subject_of
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

POLL: Final = 2.0
"""Seconds between two looks at the new version."""

_HELD: Final = 2 * LEASE_TTL
"""Seconds for which a lease is awaited: a launch that was killed with the upgrade holds it for a while."""

Result = TypeVar("Result")


class Live(Protocol):
    """The stream itself: its drivers, and what is seen of it."""

    def stop(self, reason: str) -> None:
        """Stop it at a batch boundary, and keep it stopped."""

    def start(self, reason: str) -> None:
        """Start it as its file is now. Raises StreamwardenError."""

    def look(self, since: float) -> Seen:
        """How it is. `since`: Unix seconds: when the version that is looked at was started."""


class Green(Protocol):
    """The new version, which runs beside the old one."""

    def finish(self, batch: int) -> str:
        """Execute the batches up to this one; returns why it cannot take over, empty if it can. Raises CheckpointError
        if it fails."""


@dataclass
class Switch:
    """Args:
    folder: of the upgrade.
    spec: the stream as its file declared it before.
    green: the new version, if it runs beside the old one.
    say: tells a person what is done.
    """

    store: "Store"
    live: Live
    spec: StreamSpec
    folder: Path
    upgrade: Upgrade
    green: Green | None = None
    say: Callable[[str], None] = lambda text: None
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def carry_out(self) -> Upgrade:
        """Carry out what is left of the upgrade, or of the way back; returns the journal at its end.

        Raises:
            StoreError: the store is down; run it again then. LeaseHeld: somebody else has started the stream.
            CheckpointError: no savepoint can be taken, and the stream was started again as it was; or the way back is
                refused, and the stream is stopped.
        """
        if self.upgrade.step is Step.SWAPPED and self._text() == self._kept(OLD):
            self._write(step=Step.PREPARED, savepoint=None)  # killed before the swap: the old version may have gone on
        if self.upgrade.step is Step.PREPARED:
            self._prepare()
        if self.upgrade.step is Step.SWAPPED:
            self._swap()
        if self.upgrade.step is Step.BACK:
            self._go_back()
        return self.upgrade

    def _prepare(self) -> None:
        if self.upgrade.beside and self.green is None:
            self._stay("it was interrupted before the switch, and the version beside the old one has ended")
            return
        self.say("stopping at a batch boundary")
        self.live.stop(f"upgrade {self.upgrade.id} to {self.upgrade.after}")
        try:
            author = Author(by=self.upgrade.by, reason=f"before the upgrade {self.upgrade.id} to {self.upgrade.after}")
            saved = create(self.spec, None, author, now=self.now)
        except CheckpointError:
            self._write(step=Step.ROLLED_BACK, why="no savepoint could be taken")
            self.live.start("no savepoint could be taken, so that it was not upgraded")
            raise
        self.say(f"savepoint {saved.id}: batch {saved.batch}")
        why = "" if self.green is None else self._caught_up(self.green, saved.batch)
        if why:
            self._stay(why)
        else:
            self._write(step=Step.SWAPPED, savepoint=saved.id, batch=saved.batch)

    def _caught_up(self, green: Green, batch: int) -> str:
        """Bring the new version to the batch of the old one; returns why it cannot take over."""
        if log_position(checkpoint_of(self.spec)).planned != batch:
            return "the stream was not stopped between two batches"
        self.say(f"the new version executes the batches up to {batch}")
        try:
            return green.finish(batch)
        except CheckpointError as error:
            return error.observed

    def _stay(self, why: str) -> None:
        """The old version goes on: nothing of it was changed."""
        self.live.start(f"not upgraded: {why}")
        self._write(step=Step.ROLLED_BACK, why=why)

    def _swap(self) -> None:
        """Put the new file there, start, watch. A failure of the new version is a reason to go back."""
        reason = f"upgrade {self.upgrade.id} to {self.upgrade.after}"
        if self._text() == self._kept(OLD):
            disk.replace(Path(self.spec.file), self._kept(NEW))
        try:
            if self.upgrade.swapped_at is None:
                self._take_over()
                self._write(swapped_at=self.now())
            self.say(f"starting {self.upgrade.after}")
            self._when_free(partial(self.live.start, reason))
        except (StoreError, LeaseHeld):
            raise
        except StreamwardenError as error:
            verdict = Judged(well=False, why=f"it could not be started: {error}")
        else:
            verdict = self._watch()
        if verdict.well or not self.upgrade.rollback:
            self._write(step=Step.DONE, why=verdict.why)
        else:
            self._write(step=Step.BACK, why=verdict.why)

    def _take_over(self) -> None:
        """Give the stream the checkpoint of the version that ran beside. Without it that version goes on from the old
        one's state, as any upgrade does: so a kill before this is harmless. Raises CheckpointError."""
        position = log_position(checkpoint_of(self.spec))
        moved = (position.planned, position.committed) != (self.upgrade.batch, self.upgrade.batch)
        if not self.upgrade.beside or (moved and interrupted(self.spec) is None):
            return
        self.say("the checkpoint of the version beside takes the place of the stream's")
        change = partial(TakeOver, self.spec, self.upgrade, fork_of(self.folder))
        subject = subject_of(self.upgrade)
        self._when_free(partial(exchange, self.store, self.spec, change, subject, now=self.now))

    def _watch(self) -> Judged:
        self.say(f"watching it for {self.upgrade.watch:.0f} s")
        assert self.upgrade.swapped_at is not None
        while True:
            verdict = judged(self.upgrade, self.live.look(self.upgrade.swapped_at))
            if verdict is not None:
                return verdict
            self.sleep(POLL)

    def _go_back(self) -> None:
        """Put back the checkpoint with the output, then the file."""
        self.say(f"going back: {self.upgrade.why}")
        reason = f"the upgrade {self.upgrade.id} failed: {self.upgrade.why}"
        if self._text() != self._kept(OLD):
            self.live.stop(reason)
            self._restore(reason)
            self._put_back()
        self.live.start(reason)
        self._write(step=Step.ROLLED_BACK)

    def _restore(self, reason: str) -> None:
        """Also what the new version has planned alone is taken back: it may have changed the state's schema."""
        author = Author(by=self.upgrade.by, reason=reason)
        position = log_position(checkpoint_of(self.spec))
        try:
            request = Request(author=author)
            done = self._when_free(
                partial(restore, self.store, self.spec, self.upgrade.savepoint, request, now=self.now)
            )
        except CheckpointError as error:
            raise CheckpointError(
                f"{self.spec.name} cannot be put back, and is stopped: {error.observed}",
                expected="a checkpoint and an output as they were before the upgrade",
                where=error.where,
                next_step=f"{error.next_step}; then run `streamwarden upgrade {self.spec.name}` again. The new version "
                f"has committed up to batch {position.committed}, the old one up to {self.upgrade.batch}; the previous "
                f"file of the stream is {self.folder / OLD}",
            ) from error
        self.say(f"restored batch {done.exchange.batch}; output: {done.output}")

    def _put_back(self) -> None:
        """A file that a person has changed meanwhile is kept."""
        text = self._text()
        if text != self._kept(NEW):
            disk.replace(self.folder / CHANGED, text)
        disk.replace(Path(self.spec.file), self._kept(OLD))

    def _when_free(self, act: Callable[[], Result]) -> Result:
        """Do it as soon as nobody else holds the lease of the stream. Raises LeaseHeld if it is held for long."""
        until = self.now() + _HELD
        while True:
            try:
                return act()
            except LeaseHeld:
                if self.now() > until:
                    raise
                self.sleep(POLL)

    def _text(self) -> str:
        return Path(self.spec.file).read_text(encoding="utf-8")

    def _kept(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def _write(self, **changes: object) -> None:
        self.upgrade = write_journal(self.folder, self.upgrade, **changes)
