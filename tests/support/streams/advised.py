"""The stream `minutes` with a history that asks for a longer trigger."""

from __future__ import annotations

from pathlib import Path

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.formats.logs import read_query_id
from support.streams.reports import START, report
from support.streams.upgrades import STREAM

FILE = (
    STREAM.replace(", max_files_per_trigger: 1", "") + "trigger: {processing_time: 1 second}   # as often as it can\n"
)


def declare_short_trigger(project: Path, text: str = FILE) -> Path:
    """The stream's file, whose batches take three seconds each."""
    file = project / "config/streams/minutes.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def record_history(store: Store, checkpoint: str, batches: int = 30) -> None:
    """Batches of 30 rows, each ten seconds, of the query of this checkpoint."""
    query = read_query_id(open_path(checkpoint)) if Path(checkpoint).exists() else "query-1"
    reports = [
        report(
            number,
            at=START + 10 * number,
            rows=30,
            id=query,
            batchDuration=3000,
            durationMs={"triggerExecution": 3000, "addBatch": 2500},
        )
        for number in range(batches)
    ]
    store.batches.upsert_many("minutes", reports)
