"""Puts a stream back to a savepoint: its checkpoint, and its output with it.

The savepoint is verified and copied, and the copy takes the place of the stream's checkpoint
(`services.exchanges.exchanging`). Later rows leave the output and the quarantine. All of it is kept, except rows of a
table.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamwarden.adapters.storage.files import checkpoint_of, link_or_copy, open_path
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.services.exchanges.exchanging import Change, Exchanged, exchange
from streamwarden.services.exchanges.refusals import require_on_disk
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.folders import in_use
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import require_whole
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


def restore(
    store: "Store", spec: StreamSpec, savepoint: str | None, author: Author, *, now: Callable[[], float] = time.time
) -> Exchanged:
    """Put a stopped stream back to a savepoint (None: the newest one), or complete a restore that was killed.

    Raises:
        CheckpointError: the savepoint is not whole or of another query, the output cannot be taken back, or another
            exchange of the checkpoint was interrupted.
        LeaseHeld: the stream runs.
        StoreError: the store is down.
    """
    subject = None if savepoint is None else _subject(savepoint)
    return exchange(store, spec, lambda: _restore_to(spec, savepoint, author), subject, now=now)


@dataclass(frozen=True, slots=True)
class _Restore(Change):
    spec: StreamSpec
    saved: Savepoint
    author: Author

    def planned(self, checkpoint: str, stamp: str) -> Exchange:
        return Exchange(
            operation="restore",
            goes_back=True,
            subject=_subject(self.saved.id),
            command=f"streamwarden savepoint restore {self.spec.name} {self.saved.id}",
            stream=self.spec.name,
            query_id=self.saved.query_id,
            batch=self.saved.batch,
            stamp=stamp,
            by=self.author.by,
            reason=self.author.reason,
            checkpoint=checkpoint,
        )

    def fill(self, exchange: Exchange) -> None:
        savepoints = Savepoints.of(self.spec)
        saved = open_path(self._places.checkpoint, self.spec.storage.connection)
        with in_use(savepoints.place(self.saved.id)):
            require_whole(savepoints, self.saved)
            for name, _ in saved.walk():
                target = Path(exchange.prepared) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                link_or_copy(saved / name, target)

    def plan_output(self, exchange: Exchange) -> Mapping[str, Any]:
        assert isinstance(self.spec.sink, Sink)  # checked with the savepoint
        manifest = open_path(self._places.output, self.spec.storage.connection)
        return self.spec.sink.plan_restore(self.spec, exchange, manifest)

    @property
    def _places(self) -> Places:
        return Places.under(Savepoints.of(self.spec).place(self.saved.id).path)


def _restore_to(spec: StreamSpec, savepoint: str | None, author: Author) -> _Restore:
    """The restore that was asked for. Raises CheckpointError if it is not possible."""
    saved = Savepoints.of(spec).get(savepoint)
    require_on_disk(spec, *filter(None, [spec.quarantine]))
    _require_own(spec, saved)
    return _Restore(spec, saved, author)


def _subject(savepoint: str) -> str:
    return f"savepoint {savepoint}"


def _require_own(spec: StreamSpec, savepoint: Savepoint) -> None:
    """Raises CheckpointError for a savepoint of another stream, query or checkpoint, or an undeclared output."""
    live = log_position(checkpoint_of(spec)).query_id
    wrong = None
    if savepoint.stream != spec.name:
        wrong = f"it is of the stream {savepoint.stream}"
    elif savepoint.checkpoint != spec.checkpoint:
        wrong = f"it is of the checkpoint {savepoint.checkpoint}, and files in it name that place"
    elif live is not None and live != savepoint.query_id:
        wrong = f"it is of query {savepoint.query_id}, and the stream began anew since, as query {live}"
    elif not isinstance(spec.sink, Sink):
        wrong = "the stream's output is not declared, so it is not known what came after the batch"
    if wrong is not None:
        raise CheckpointError(
            f"{spec.name} cannot be put back to the savepoint {savepoint.id}: {wrong}",
            expected=f"a savepoint of {spec.name} and of the query that its checkpoint has",
            where=spec.checkpoint,
            next_step=f"choose another one: run `streamwarden savepoint list {spec.name}`",
        )
