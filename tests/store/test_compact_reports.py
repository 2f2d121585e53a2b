"""Reports in their compact form: what the checks read of them, written once and read without parsing a report."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.history.compact import compact, expand, kept
from streamwarden.progress import Progress, parse_progress
from support.first_store import make_first_store
from support.streams.reports import QUERY, START, idle, report

STREAM = "flights"
DATA = Path(__file__).parents[1] / "data" / "health"
RECORDED = [
    parse_progress(json.loads(line)) for file in sorted(DATA.glob("*.jsonl")) for line in file.read_text().splitlines()
]


def slim(progress: Progress) -> Progress:
    """The report as its compact form has it."""
    return replace(
        progress,
        raw={},
        operators=tuple(replace(one, custom=kept(one.custom)) for one in progress.operators),
    )


def execute(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


@pytest.mark.parametrize("given", [*RECORDED, report(4), idle(5, at=START)], ids=lambda each: f"batch {each.batch_id}")
def test_it_has_everything_but_the_report_itself_and_what_nobody_reads(given: Progress) -> None:
    text = compact(given)
    assert expand(text, (given.query_id, given.run_id, given.batch_id)) == slim(given)
    assert len(text) < len(json.dumps(given.raw)) / 2


def test_that_of_an_older_version_lacks_the_rows_written() -> None:
    given = report(4)
    assert given.rows_written is not None
    text = json.dumps(json.loads(compact(given))[:-1])
    assert expand(text, (QUERY, given.run_id, 4)) == replace(slim(given), rows_written=None)


def test_a_window_has_the_compact_reports_of_the_batches(store: Store) -> None:
    for name in ("a", "b"):
        store.batches.upsert_many(name, [report(batch_id) for batch_id in range(5)])
    store.batches.upsert_logged("b", QUERY, 5, START + 90, START + 91)
    store.batches.upsert_progress("a", idle(5, at=START + 60))
    for name, batches in store.batches.windows(["a", "b", "nobody"], limit=3).items():
        whole = store.batches.window(name, limit=3)
        assert batches == tuple(replace(each, progress=each.progress and slim(each.progress)) for each in whole)


def test_a_report_that_an_older_version_stored_is_read_itself(path: Path, store: Store) -> None:
    store.batches.upsert_progress(STREAM, report(1))
    execute(path, "UPDATE batches SET compact = NULL, compact_at = NULL")
    assert store.batches.windows([STREAM])[STREAM] == store.batches.window(STREAM)


def test_a_report_that_an_older_version_replaced_is_read_itself(path: Path, store: Store) -> None:
    """Such a driver leaves the compact form of the report before."""
    store.batches.upsert_progress(STREAM, report(1, rows=10))
    later = report(1, at=START + 60, rows=20)
    values = (json.dumps(later.raw), later.at, later.at)
    execute(path, "UPDATE batches SET progress = ?, started_at = ?, at = ?", *values)
    (batch,) = store.batches.windows([STREAM])[STREAM]
    assert batch.progress == later


def test_a_store_of_the_first_version_is_read_after_its_migration(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'streamwarden.db'}"
    make_first_store(url)
    older = report(1)
    execute(
        tmp_path / "streamwarden.db",
        "INSERT INTO batches (stream, query_id, batch_id, run_id, at, started_at, executed, origin, progress)"
        " VALUES (?, ?, 1, ?, ?, ?, 1, 'progress', ?)",
        *(STREAM, QUERY, older.run_id, older.at, older.at, json.dumps(older.raw)),
    )
    with Store(url) as store:
        store.migrate()
        store.batches.upsert_progress(STREAM, report(2))
        assert [each.progress for each in store.batches.windows([STREAM])[STREAM]] == [older, slim(report(2))]
