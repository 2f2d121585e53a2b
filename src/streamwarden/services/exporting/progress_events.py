"""Finds the due asset events about the progress of streams, for the task that publishes them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from streamwarden.adapters.store import Store
from streamwarden.lifecycle.publishing import Ending, ProgressEvent, Publication, event, is_due
from streamwarden.lifecycle.queries import Part, stream_parts
from streamwarden.stream.spec import StreamSpec

Endings = Callable[[Sequence[str]], Mapping[str, Ending]]
"""How runs of the publishing task ended, by their ids."""


def due_events(
    store: Store, specs: Iterable[StreamSpec], *, run: str, endings: Endings, now: float
) -> tuple[ProgressEvent, ...]:
    """The events that are due, each written down as pending until a later call learns how `run` ended.

    A stream whose last event may still be on its way, because another run has not ended, waits for the next call.
    Raises StoreError.
    """
    waiting = _close(store, run, endings)
    last = {publication.stream: publication for publication in store.publications.all() if not publication.pending}
    due = []
    for name, spec in _parts(store, specs, now):
        new = store.publications.new_batches(name, last.get(name))
        if name not in waiting and new is not None and is_due(spec.publish, last.get(name), new, now):
            due.append(event(name, last.get(name), new, now, run))
    store.publications.propose([proposal.publication for proposal in due])
    return tuple(due)


def _close(store: Store, run: str, endings: Endings) -> frozenset[str]:
    """Resolve or cancel pending events; returns the streams where that is not possible yet.

    Pending events of this very run were proposed by an attempt that failed.
    """
    pending = [publication for publication in store.publications.all() if publication.pending]
    others = sorted({publication.run for publication in pending} - {run})
    ended = dict(endings(others)) if others else {}
    ended[run] = Ending.LOST
    store.publications.settle(_with(pending, ended, Ending.PUBLISHED))
    store.publications.withdraw(_with(pending, ended, Ending.LOST))
    return frozenset(_with(pending, ended, Ending.OPEN))


def _with(pending: Iterable[Publication], ended: Mapping[str, Ending], ending: Ending) -> list[str]:
    return [publication.stream for publication in pending if ended[publication.run] is ending]


def _parts(store: Store, specs: Iterable[StreamSpec], now: float) -> list[tuple[str, StreamSpec]]:
    """Every stream that publishes, or each of its queries if it has several."""
    wanted = {spec.name: spec for spec in specs if spec.publish.wanted}
    records = store.queries.of_many(tuple(wanted))
    return [
        (part.spec.name, spec)
        for name, spec in wanted.items()
        for part in stream_parts(spec, records[name], now)
        if part.part is not Part.DRIVER
    ]
