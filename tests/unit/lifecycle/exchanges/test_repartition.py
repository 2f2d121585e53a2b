"""Which states are not repartitioned, why, and what to do; and which results of Spark are discarded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.partitions import HDFS
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.checkpoint.formats.logs import SHUFFLE_PARTITIONS, offsets
from streamwarden.checkpoint.formats.schemas import StateSchema
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.exchanges.repartition import Repartition, plan, require_placed, require_same_plan
from support.checkpoints.recorded import Unpack

WANTED = Repartition(stream="minutes", query_id="q", batch=13, before=2, after=8)


@pytest.fixture
def report(unpack: Unpack, tmp_path: Path) -> CheckpointReport:
    """Of an aggregation in RocksDB, with two partitions."""
    return read_checkpoint(open_path(str(unpack("spark-4.3.0-changelog", tmp_path / "run"))))


def refused(report: CheckpointReport, partitions: int = 8) -> CheckpointError:
    with pytest.raises(CheckpointError, match="the state of minutes cannot be repartitioned: ") as caught:
        plan(report, "minutes", partitions)
    assert all((caught.value.expected, caught.value.next_step))
    assert caught.value.where == report.path
    return caught.value


def without_key(report: CheckpointReport) -> CheckpointReport:
    """As of a global aggregation."""
    (operator,) = report.operators
    (schema,) = operator.schemas
    keyless: StateSchema = replace(schema, families=(replace(schema.families[0], key=()),))
    return replace(report, operators=(replace(operator, schemas=(keyless,)),))


def uncommitted(report: CheckpointReport) -> CheckpointReport:
    return replace(report, position=replace(report.position, committed=None))


def of_an_old_spark(report: CheckpointReport) -> CheckpointReport:
    return replace(report, operators=tuple(replace(one, inferred=True) for one in report.operators))


@pytest.mark.parametrize(
    ("change", "partitions", "observed", "way_on"),
    [
        (uncommitted, 8, "no batch is committed yet", "before the first start"),
        (lambda report: replace(report, operators=()), 8, "keeps no state", "and restart"),
        (of_an_old_spark, 8, "does not name its operators", "start the stream with this Spark"),
        (lambda report: report, 2, "it has 2 partitions already", "nothing has to be done"),
        (lambda report: replace(report, provider=HDFS), 8, f"kept by {HDFS}", "begin anew with a new checkpoint path"),
        (without_key, 8, "has no key and always one partition", "begin anew with a new checkpoint path"),
    ],
)
def test_what_is_refused_has_a_reason_and_a_way_on(
    report: CheckpointReport,
    change: Callable[[CheckpointReport], CheckpointReport],
    partitions: int,
    observed: str,
    way_on: str,
) -> None:
    assert plan(report, "minutes", 8).before == 2, "the control: it is possible otherwise"
    error = refused(change(report), partitions)
    assert observed in error.observed
    assert way_on in error.next_step


def test_the_added_batch_reads_nothing(unpack: Unpack, tmp_path: Path) -> None:
    before = offsets(open_path(str(unpack("spark-4.3.0-changelog", tmp_path / "run"))), 13)
    right = replace(before, batch=14, conf={**before.conf, SHUFFLE_PARTITIONS: "8"})
    require_same_plan(before, right, WANTED, "here")
    wrong = [
        replace(right, conf=before.conf),
        replace(right, watermark_ms=right.watermark_ms + 1),
        replace(right, sources=()),
    ]
    for record in wrong:
        with pytest.raises(CheckpointError, match="offsets/14 is not offsets/13 with 8 partitions"):
            require_same_plan(before, record, WANTED, "here")


@pytest.mark.parametrize(
    ("misplaced", "what"), [((0, 3), "3 rows are not in the partition of their key, of 8"), ((1, 0), "1 rows of the p")]
)
def test_rows_that_the_query_would_not_find_discard_the_result(misplaced: tuple[int, int], what: str) -> None:
    require_placed((0, 0), WANTED, "here")
    with pytest.raises(CheckpointError, match=what) as caught:
        require_placed(misplaced, WANTED, "here")
    assert caught.value.next_step.startswith("start the stream as it was")
