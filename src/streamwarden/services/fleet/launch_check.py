"""Compares the store, the checkpoint and the output of a stream before its driver is launched.

It runs under the lease, so nothing else changes the checkpoint meanwhile. A refusal leaves a driver record with an exit
that no restart cures.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import LogPosition, log_position
from streamwarden.errors import LaunchRefused, StreamwardenError
from streamwarden.lifecycle.driver import DriverEvent
from streamwarden.lifecycle.exchanges.exchange import RESTORED, journal_of
from streamwarden.lifecycle.forks.places import is_fork
from streamwarden.lifecycle.launch_check import BEGAN_ANEW, KnownQuery, LaunchFacts, OutputEnd, Refusal, refusal
from streamwarden.lifecycle.location import is_temporary, same_place
from streamwarden.lifecycle.queries import Part, StreamPart, stream_parts
from streamwarden.lifecycle.supervision.stop import DesiredState
from streamwarden.services.fleet.recorded_starts import committed_at_launch
from streamwarden.sinks.base import Sink

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.stream.spec import StreamSpec

T = TypeVar("T")

ATTEMPTS: Final = 3
PAUSE: Final = 0.5
"""Seconds between two attempts to read what may fail for a moment."""


def require_fit(store: Store, spec: StreamSpec, driver_id: str, environ: Mapping[str, str], *, at: float) -> None:
    """Refuse the launch of this driver if a start would lose or double rows, unless a person lets it begin anew.

    What cannot be read refuses nothing: the driver needs it too, and reports why it is missing. A fork is made to fit
    a moment before, and a drill damages it on purpose: it is not compared.

    Args:
        environ: the driver's variables, with its connections.
        at: Unix seconds.

    Raises LaunchRefused; CheckpointError if the output cannot be made ready to begin anew; StoreError.
    """
    if is_fork(spec.name):
        return
    _require_no_journal(store, spec)
    found = refusal(list(gather(store, spec, environ, at)))
    allowed = store.stops.desired(spec.name)
    if found is not None:
        if allowed is None or allowed.begin_anew is None or found.give_way:
            raise LaunchRefused(found.observed, expected=found.expected, where=found.where, next_step=found.next_step)
        _begin_anew(store, spec, driver_id, found, allowed, at)
    spend_permission(store, spec.name)


def _require_no_journal(store: Store, spec: StreamSpec) -> None:
    """Raises LaunchRefused if an exchange of the checkpoint was interrupted: checkpoint and output may be of different
    batches."""
    seen = (query.checkpoint for query in store.queries.of(spec.name))  # a script opens more than its file declares
    for journal in dict.fromkeys(map(journal_of, (*spec.checkpoints, *seen))):
        begun = _attempted(partial(_interrupted, journal, spec.storage.connection))
        if begun is None:  # an exchange that runs holds the lease
            continue
        operation = begun.get("operation", "exchange of the checkpoint")
        raise LaunchRefused(
            f"a {operation} of the stream was interrupted: its checkpoint and its output may be of different batches",
            expected=f"a {operation} that is complete",
            where=journal,
            next_step=f"complete it: run `{begun['command']}`"
            if "command" in begun
            else "the journal is damaged: restore this file from a backup",
        )


def _interrupted(journal: str, connection: str | None) -> Mapping[str, str] | None:
    """What the journal of an exchange says; None: there is none. Raises OSError for a store that does not answer: what
    is half exchanged there, Spark refuses."""
    try:
        found = json.loads(open_path(journal, connection).read())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, PermissionError):
        return {}
    return found if isinstance(found, dict) else {}


def spend_permission(store: Store, stream: str) -> None:
    """A permission to begin anew is for one launch: a checkpoint that is lost later refuses the launch again."""
    state = store.stops.desired(stream)
    if state is not None and state.begin_anew is not None:
        store.stops.set_desired(replace(state, begin_anew=None))


def _begin_anew(
    store: Store, spec: StreamSpec, driver_id: str, found: Refusal, allowed: DesiredState, at: float
) -> None:
    cleared = spec.sink.clear_after(spec, found.first - 1, at) if isinstance(spec.sink, Sink) else ""
    detail = {
        "by": allowed.changed_by,
        "reason": str(allowed.begin_anew),
        "observed": "; ".join(part for part in (found.observed, cleared) if part),
    }
    store.drivers.event(DriverEvent(driver_id=driver_id, at=at, kind=BEGAN_ANEW, detail=detail))


def gather(store: Store, spec: StreamSpec, environ: Mapping[str, str], at: float) -> Iterator[LaunchFacts]:
    """The facts on each query of the stream whose checkpoint can be read. Raises StoreError."""
    events = (event for kind in (BEGAN_ANEW, RESTORED) for event in store.drivers.events_of(spec.name, kind))
    since = max((event.at for event in events), default=0.0)
    for part in stream_parts(spec, store.queries.of(spec.name), at):
        checkpoint = _checkpoint(spec, part)
        if part.part is Part.DRIVER or is_temporary(checkpoint):
            continue
        found = _attempted(partial(_position, checkpoint, spec.storage.connection))
        if found is None:
            continue
        known = _known(store, part, checkpoint, since)
        last = None if part.query is None else part.query.query_id
        ids = [query_id for query_id in (found.query_id, last) if query_id is not None]
        yield LaunchFacts(
            checkpoint=checkpoint,
            found=found,
            known=known,
            own_committed=_committed(store, part.spec.name, spec.name, found.query_id, since),
            output=_attempted(partial(_end, part, ids, environ, since), 1),
        )


def _position(place: str, connection: str | None) -> LogPosition:
    return log_position(open_path(place, connection))


def _checkpoint(spec: StreamSpec, part: StreamPart) -> str:
    """As the file declares it: it may have changed since the query ran."""
    _, _, query = part.spec.name.partition("/")
    return spec.queries.get(query) or part.spec.checkpoint


def _known(store: Store, part: StreamPart, checkpoint: str, since: float) -> KnownQuery | None:
    """The query that last ran on this checkpoint; None if none did, or the stream began anew since."""
    record = part.query
    if record is None or record.started_at <= since or not same_place(record.checkpoint, checkpoint):
        return None
    committed = _committed(store, part.spec.name, record.stream, record.query_id, since)
    return KnownQuery(query_id=record.query_id, committed=committed)


def _committed(store: Store, name: str, stream: str, query_id: str | None, since: float) -> int | None:
    """The newest batch that the query has committed since then: of the batches, which are pruned after days, and of
    what the launches found, which is kept."""
    if query_id is None:
        return None
    batches = store.batches.last_committed(name, query_id, since), committed_at_launch(store, stream, query_id, since)
    return max((batch for batch in batches if batch is not None), default=None)


def _end(part: StreamPart, ids: list[str], environ: Mapping[str, str], since: float) -> OutputEnd | None:
    sink = part.spec.sink
    return sink.end(part.spec, ids, environ, since) if isinstance(sink, Sink) else None


def _attempted(read: Callable[[], T], attempts: int = ATTEMPTS) -> T | None:
    """What `read` returns; None if it fails each time."""
    for attempt in range(attempts):
        if attempt:
            time.sleep(PAUSE)
        with contextlib.suppress(StreamwardenError, OSError):
            return read()
    return None
