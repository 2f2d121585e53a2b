"""The batches of a stream as lines: where the time of each went, and what is unusual about it."""

from __future__ import annotations

from dataclasses import replace

from streamwarden.airflow.web.words.batches import FEW, BatchLine, lines
from streamwarden.health.window import TAKEN_BACK, Batch
from streamwarden.progress import parse_progress
from support.streams.health_windows import NOW, batch_of, report


def batch(number: int, seconds: float = 1.0) -> Batch:
    sink = {"sink": {"description": "files", "numOutputRows": 7}}
    top = {"batchDuration": int(seconds * 1000), "numInputRows": 50, **sink}
    phases = {"addBatch": 600, "walCommit": 30, "commitOffsets": 20, "queryPlanning": 100, "latestOffset": 5}
    dropped = {"numRowsUpdated": 4, "numRowsRemoved": 3, "numRowsDroppedByWatermark": 2}
    return batch_of(report(batch=number, at=NOW + number, top=top, durations=phases, operator=dropped))


def line(of: Batch) -> BatchLine:
    return lines([of])[0]


def test_a_line_says_what_the_batch_read_wrote_and_changed_and_where_its_time_went() -> None:
    found = line(batch(3))
    assert (found.batch_id, found.began, found.seconds, found.rows_in, found.rows_out) == (3, NOW + 3, 1.0, 50, 7)
    assert (found.updated, found.removed, found.dropped) == (4, 3, 2)
    assert found.phases is not None
    assert (found.phases.execution, found.phases.logs) == (0.6, 0.05)
    assert found.note == ""


def test_a_sink_that_does_not_count_has_no_number() -> None:
    one = batch(0)
    assert one.progress is not None
    unknown = parse_progress({**one.progress.raw, "sink": {"description": "files", "numOutputRows": -1}})
    assert line(replace(one, progress=unknown)).rows_out is None


def test_the_newest_batch_comes_first_and_the_slowest_is_marked() -> None:
    found = lines([batch(number, seconds=9.0 if number == 2 else 1.0) for number in range(FEW)])
    assert [each.batch_id for each in found] == [4, 3, 2, 1, 0]
    assert [each.batch_id for each in found if each.note == "the slowest of these"] == [2]


def test_of_a_few_batches_none_is_the_slowest() -> None:
    assert not any(each.note for each in lines([batch(0), batch(1, seconds=9.0)]))


def test_a_batch_without_a_report_has_the_time_between_its_logs() -> None:
    lost = replace(batch(1), progress=None, planned_at=10.0, committed_at=12.5)
    found = line(lost)
    assert (found.began, found.seconds, found.rows_in, found.bad) == (10.0, 2.5, None, True)
    assert "lost" in found.note
    running = line(replace(lost, committed_at=None))
    assert (running.seconds, running.note, running.bad) == (None, "not committed yet", False)


def test_a_batch_that_a_restore_took_back_says_so() -> None:
    one = batch(1)
    assert line(replace(one, query_id=f"{one.query_id}{TAKEN_BACK}20260101")).note == "taken back by a restore"
