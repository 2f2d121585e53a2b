"""What the checks see of a stream's quarantine: a sample of its newest rows, and the rows that it will never have."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import StreamwardenError
from streamwarden.health.quarantine import QuarantineGap, QuarantineSample, gaps_of, sample_of
from streamwarden.health.signals.hysteresis import MEMORY
from streamwarden.health.window import Batch
from streamwarden.lifecycle.driver import DriverEvent
from streamwarden.stream.spec import STORED, StreamSpec

_BATCHES: Final = 3
"""Batches with malformed rows that are looked up: the quarantine of the newest may not be written yet."""
_MOST: Final = 2**18
"""Bytes that are read of a batch: reasons repeat themselves."""


def gaps(store: Store, stream: str, events: Sequence[DriverEvent]) -> tuple[QuarantineGap, ...]:
    """The gaps of `stream`, each with its rows as the reports of its batches count them. Raises StoreError."""
    return tuple(
        replace(gap, rows=store.batches.malformed(stream, gap.query_id, gap.first, gap.last) or None)
        for gap in gaps_of(events)
    )


def sample(spec: StreamSpec, batches: Sequence[Batch]) -> QuarantineSample | None:
    """Rows of the newest of `batches` that the quarantine has some of. A quarantine that cannot be read here gives
    None: the counts of the reports do not depend on it."""
    quarantine = spec.quarantine
    if quarantine is None or ("://" in quarantine and not STORED.match(quarantine)):
        return None
    newest = reversed(batches[-MEMORY:])
    malformed = (batch for batch in newest if batch.progress is not None and batch.progress.malformed)
    for batch, _ in zip(malformed, range(_BATCHES), strict=False):
        try:
            folder = open_path(quarantine) / f"query={batch.query_id}/batch={batch.batch_id}"
            found = sample_of(batch.batch_id, _lines(folder))
        except (StreamwardenError, OSError):
            continue
        if found is not None:
            return found
    return None


def _lines(folder: Location) -> Iterator[str]:
    """The first lines of the batch's files."""
    left = _MOST
    for name in sorted(_data(folder.names())):
        with (folder / name).open() as file:
            text = file.read(left).decode("utf-8", errors="replace")
        left -= len(text)
        yield from text.splitlines()
        if left <= 0:
            return


def _data(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.endswith(".json") and not name.startswith((".", "_")))
