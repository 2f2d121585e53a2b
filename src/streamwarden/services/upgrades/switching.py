"""Switches a stream to its new version, watches it, and goes back: carries out the steps of an upgrade's journal."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from streamwarden import disk
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import CheckpointError, StoreError, StreamwardenError
from streamwarden.lifecycle.upgrades.journal import Judged, Seen, Step, Upgrade, judged
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.services.upgrades.journals import CHANGED, NEW, OLD, write_journal
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

POLL: Final = 2.0
"""Seconds between two looks at the new version."""


class Live(Protocol):
    """The stream itself: its drivers, and what is seen of it."""

    def stop(self, reason: str) -> None:
        """Stop it at a batch boundary, and keep it stopped."""

    def start(self, reason: str) -> None:
        """Start it as its file is now. Raises StreamwardenError."""

    def look(self, since: float) -> Seen:
        """How it is. `since`: Unix seconds: when the version that is looked at was started."""


@dataclass
class Switch:
    """Args:
    folder: of the upgrade.
    spec: the stream as its file declared it before.
    say: tells a person what is done.
    """

    store: "Store"
    live: Live
    spec: StreamSpec
    folder: Path
    upgrade: Upgrade
    say: Callable[[str], None] = lambda text: None
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def carry_out(self) -> Upgrade:
        """Carry out what is left of the upgrade, or of the way back; returns the journal at its end.

        Raises:
            StoreError: the store is down; run it again then.
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
        self._write(step=Step.SWAPPED, savepoint=saved.id, batch=saved.batch)

    def _swap(self) -> None:
        """Put the new file there, start, watch. A failure of the new version is a reason to go back."""
        reason = f"upgrade {self.upgrade.id} to {self.upgrade.after}"
        if self._text() == self._kept(OLD):
            disk.replace(Path(self.spec.file), self._kept(NEW))
        if self.upgrade.swapped_at is None:
            self._write(swapped_at=self.now())
        self.say(f"starting {self.upgrade.after}")
        try:
            self.live.start(reason)
        except StoreError:
            raise
        except StreamwardenError as error:
            verdict = Judged(well=False, why=f"it could not be started: {error}")
        else:
            verdict = self._watch()
        if verdict.well or not self.upgrade.rollback:
            self._write(step=Step.DONE, why=verdict.why)
        else:
            self._write(step=Step.BACK, why=verdict.why)

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
            done = restore(self.store, self.spec, self.upgrade.savepoint, Request(author=author), now=self.now)
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

    def _text(self) -> str:
        return Path(self.spec.file).read_text(encoding="utf-8")

    def _kept(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def _write(self, **changes: object) -> None:
        self.upgrade = write_journal(self.folder, self.upgrade, **changes)
