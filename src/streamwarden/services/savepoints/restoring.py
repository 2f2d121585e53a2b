"""Puts a stream back to a savepoint: its checkpoint, and its output with it.

The savepoint is verified, tried on a fork and copied, and the copy takes the place of the stream's checkpoint
(`services.exchanges.exchanging`). Later rows leave the output and the quarantine. All of it is kept, except rows of a
table.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.logs import log_position, offsets
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import Link
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.services.exchanges.exchanging import Change, Exchanged, exchange
from streamwarden.services.exchanges.refusals import require_exchangeable
from streamwarden.services.forks.files import carry_out
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.folders import in_use
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import require_whole
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

Proof = Callable[[Savepoint], str]
"""Tries a savepoint on a fork and returns what that proved. Raises CheckpointError if Spark does not go on from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who puts a stream back, and why.

    Args:
        confirmed: what the sink cannot take back may remain in the output.
        prove: tries the savepoint first; None: it is not tried.
    """

    author: Author
    confirmed: bool = False
    prove: Proof | None = None


def restore(
    store: "Store", spec: StreamSpec, savepoint: str | None, request: Request, *, now: Callable[[], float] = time.time
) -> Exchanged:
    """Put a stopped stream back to a savepoint (None: the newest one), or complete a restore that was killed.

    Raises:
        CheckpointError: the savepoint is not whole or of another query, Spark does not go on from it, the output cannot
            be taken back, or another exchange of the checkpoint was interrupted.
        LeaseHeld: the stream runs.
        StoreError: the store is down.
    """
    subject = None if savepoint is None else subject_of(savepoint)

    def change() -> Restore:
        return restore_to(spec, Savepoints.of(spec).get(savepoint), request)

    return exchange(store, spec, change, subject, now=now)


@dataclass(frozen=True, slots=True)
class Restore(Change):
    """A stream goes back to a savepoint."""

    spec: StreamSpec
    saved: Savepoint
    request: Request

    def planned(self, checkpoint: str, stamp: str) -> Exchange:
        return Exchange(
            operation="restore",
            goes_back=True,
            subject=subject_of(self.saved.id),
            command=f"streamwarden savepoint restore {self.spec.name} {self.saved.id}",
            stream=self.spec.name,
            query_id=self.saved.query_id,
            batch=self.saved.batch,
            planned_ms=offsets(self._copy, self.saved.batch).timestamp_ms,
            stamp=stamp,
            by=self.request.author.by,
            reason=self.request.author.reason,
            checkpoint=checkpoint,
        )

    def plan_output(self, exchange: Exchange) -> OutputPlan:
        plan = self._sink.plan_restore(self.spec, exchange, self._manifest)
        require_confirmed(self.spec, exchange, plan, self.request)
        return plan

    def fill(self, exchange: Exchange) -> None:
        savepoints = Savepoints.of(self.spec)
        saved = self._copy
        with in_use(savepoints.place(self.saved.id)):
            require_whole(savepoints, self.saved)
            names = (name for name, _ in saved.walk())
            links = (Link((saved / name).path, join(exchange.prepared, name)) for name in names)
            carry_out(links, saved.fs, self.spec.storage.connection)

    def prove(self, exchange: Exchange) -> str:
        return "not tried on a fork" if self.request.prove is None else self.request.prove(self.saved)

    def prepare_output(self, exchange: Exchange) -> None:
        self._sink.prepare_restore(self.spec, exchange, self._manifest)

    @property
    def _sink(self) -> Sink:
        assert isinstance(self.spec.sink, Sink)  # checked with the savepoint
        return self.spec.sink

    @property
    def _copy(self) -> Location:
        return open_path(self._places.checkpoint, self.spec.storage.connection)

    @property
    def _manifest(self) -> Location:
        return open_path(self._places.output, self.spec.storage.connection)

    @property
    def _places(self) -> Places:
        return Places.under(Savepoints.of(self.spec).place(self.saved.id).path)


def restore_to(spec: StreamSpec, saved: Savepoint, request: Request) -> Restore:
    """The exchange that puts a stream back. Raises CheckpointError if it is not possible."""
    require_restorable(spec)
    require_own(spec, saved)
    return Restore(spec, saved, request)


def require_restorable(spec: StreamSpec) -> None:
    """Raises CheckpointError if the stream cannot be put back to any savepoint."""
    places = spec.checkpoint, spec.quarantine, spec.sink.path if spec.sink.MANIFEST else None
    require_exchangeable(spec, *filter(None, places))
    if not isinstance(spec.sink, Sink):
        raise CheckpointError(
            f"{spec.name} cannot be put back: its output is not declared, so it is not known what came after a batch",
            expected="a sink that the stream's file declares",
            where=spec.file or spec.name,
            next_step="declare the sink of the stream",
        )


def require_confirmed(spec: StreamSpec, wanted: Exchange, output: OutputPlan, request: Request) -> None:
    """Raises CheckpointError if something remains in the output that nobody has agreed to."""
    if output.remains and not request.confirmed:
        raise CheckpointError(
            f"what was written after batch {wanted.batch} cannot be taken back: {output.remains}",
            expected="a person who confirms that, and sees to the readers",
            where=str(spec.sink.place),
            next_step="run the same command again with `--confirm`; with `--dry-run` it shows the whole plan",
        )


def require_own(spec: StreamSpec, savepoint: Savepoint) -> None:
    """Raises CheckpointError for a savepoint of another stream, query or checkpoint."""
    live = log_position(checkpoint_of(spec)).query_id
    wrong = None
    if savepoint.stream != spec.name:
        wrong = f"it is of the stream {savepoint.stream}"
    elif savepoint.checkpoint != spec.checkpoint:
        wrong = f"it is of the checkpoint {savepoint.checkpoint}, and files in it name that place"
    elif live is not None and live != savepoint.query_id:
        wrong = f"it is of query {savepoint.query_id}, and the stream began anew since, as query {live}"
    if wrong is not None:
        raise CheckpointError(
            f"{spec.name} cannot be put back to the savepoint {savepoint.id}: {wrong}",
            expected=f"a savepoint of {spec.name} and of the query that its checkpoint has",
            where=spec.checkpoint,
            next_step=f"choose another one: run `streamwarden savepoint list {spec.name}`",
        )


def subject_of(savepoint: str) -> str:
    """How an exchange names a savepoint."""
    return f"savepoint {savepoint}"
