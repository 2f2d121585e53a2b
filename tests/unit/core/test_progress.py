"""Progress is parsed once, from what Spark really prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from streamwarden.errors import StreamwardenError
from streamwarden.progress import parse_progress

REPORTS = Path(__file__).parents[2] / "data" / "progress"


@pytest.fixture
def report() -> dict[str, Any]:
    """A report of a windowed aggregation on RocksDB, written by Spark 4.3.0."""
    parsed: dict[str, Any] = json.loads((REPORTS / "spark-4.3.0-aggregation.json").read_text())
    return parsed


def test_a_report_of_spark_4_3_is_read_whole(report: dict[str, Any]) -> None:
    progress = parse_progress(json.dumps(report))
    assert progress.batch_id == 4
    assert progress.rows == 200
    assert progress.duration_ms == 1597
    assert progress.durations_ms["walCommit"] == 184
    assert progress.watermark == pytest.approx(1795268630.502, abs=0.001)
    assert progress.observed_metrics == {"input": {"rows": 200}}
    (operator,) = progress.operators
    assert (operator.name, operator.rows_total, operator.rows_updated, operator.rows_removed) == (
        "stateStoreSave",
        2,
        2,
        1,
    )
    assert (operator.update_ms, operator.removal_ms, operator.commit_ms, operator.partitions) == (55, 162, 353, 2)
    assert operator.custom["SnapshotLastUploaded.partition_0_default"] == -1
    (source,) = progress.sources
    assert (source.end_offset, source.latest_offset, source.rows) == (19, 19, 200)


@pytest.mark.parametrize(
    ("rows", "phases", "expected"),
    [
        pytest.param(0, ("latestOffset", "triggerExecution"), False, id="an idle trigger"),
        pytest.param(200, ("walCommit", "addBatch", "commitOffsets"), True, id="a batch"),
        pytest.param(0, ("walCommit", "addBatch", "commitOffsets"), True, id="a batch without data"),
        pytest.param(200, ("addBatch", "commitOffsets"), True, id="planned before a restart"),
        pytest.param(0, ("walCommit",), True, id="only its plan was timed"),
        pytest.param(200, (), True, id="only its rows were counted"),
    ],
)
def test_a_batch_is_distinguished_from_an_idle_trigger(
    report: dict[str, Any], rows: int, phases: tuple[str, ...], expected: bool
) -> None:
    report |= {"numInputRows": rows, "durationMs": dict.fromkeys(phases, 1)}
    assert parse_progress(report).has_run is expected


def test_unknown_keys_are_kept_in_raw(report: dict[str, Any]) -> None:
    report["brandNew"] = {"key": 1}
    assert parse_progress(report).raw["brandNew"] == {"key": 1}


def test_keys_that_older_sparks_do_not_write_are_not_needed(report: dict[str, Any]) -> None:
    for key in ("batchDuration", "observedMetrics", "eventTime", "inputRowsPerSecond"):
        del report[key]
    for key in ("numRowsRemoved", "allRemovalsTimeMs", "commitTimeMs", "numShufflePartitions", "customMetrics"):
        del report["stateOperators"][0][key]
    progress = parse_progress(report)
    assert progress.duration_ms == 1596  # triggerExecution
    assert progress.watermark is None
    assert progress.input_rows_per_second is None
    assert progress.operators[0].partitions is None
    assert progress.operators[0].commit_ms == 0


def test_the_epoch_is_no_watermark(report: dict[str, Any]) -> None:
    report["eventTime"] = {"watermark": "1970-01-01T00:00:00.000Z"}
    assert parse_progress(report).watermark is None


@pytest.mark.parametrize("rate", ["NaN", "Infinity", None, "", float("nan")])
def test_a_rate_that_is_no_number_is_none(report: dict[str, Any], rate: object) -> None:
    report["inputRowsPerSecond"] = rate
    assert parse_progress(report).input_rows_per_second is None


@pytest.mark.parametrize("key", ["id", "runId", "batchId", "timestamp"])
def test_a_report_that_names_no_batch_is_refused(report: dict[str, Any], key: str) -> None:
    del report[key]
    with pytest.raises(StreamwardenError, match=f"lacks {key}"):
        parse_progress(report)
