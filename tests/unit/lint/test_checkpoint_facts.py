"""What the rules of `lint` read from the checkpoints of queries that have run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.lint.checkpoint_reader import operators_of
from streamwarden.lint.facts import Bound, OperatorKind


@pytest.mark.parametrize(
    ("archive", "kind", "bound"),
    [
        ("spark-4.3.0-hdfs", OperatorKind.AGGREGATION, Bound.WATERMARK),
        ("spark-4.3.0-sessions", OperatorKind.AGGREGATION, Bound.WATERMARK),
        ("spark-4.3.0-join", OperatorKind.JOIN, Bound.UNKNOWN),
        ("spark-4.3.0-processor", OperatorKind.PROCESSOR, Bound.UNKNOWN),
    ],
)
def test_an_operator_is_known_by_its_name_and_its_key(
    whole: Callable[[str], Path], archive: str, kind: OperatorKind, bound: Bound
) -> None:
    found = operators_of(read_checkpoint(open_path(whole(archive))))
    assert (kind, bound, "state/0") in {(each.kind, each.bound, each.where) for each in found}


def test_without_a_watermark_nothing_leaves_the_state(whole: Callable[[str], Path]) -> None:
    (operator,) = operators_of(without_watermark(read_checkpoint(open_path(whole("spark-4.3.0-join"))), committed=10))
    assert operator.bound is Bound.NONE


def test_a_new_query_whose_watermark_has_not_moved_is_not_said_to_have_none(whole: Callable[[str], Path]) -> None:
    """Spark writes 0 for both: after the first batches of a join one of whose sides has had no event, for example."""
    report = read_checkpoint(open_path(whole("spark-4.3.0-join")))
    (new,) = operators_of(without_watermark(report, committed=9))
    assert new.bound is Bound.UNKNOWN
    assert "the query is new" in new.why
    (named,) = operators_of(without_watermark(report, committed=500), named=True)
    assert named.bound is Bound.UNKNOWN


def without_watermark(report: CheckpointReport, committed: int) -> CheckpointReport:
    return replace(report, watermark_ms=None, position=replace(report.position, committed=committed))


def test_an_operator_of_an_older_spark_is_known_by_its_schema(whole: Callable[[str], Path]) -> None:
    (operator,) = operators_of(read_checkpoint(open_path(whole("spark-3.5.6-hdfs"))))
    assert (operator.kind, operator.bound) == (OperatorKind.AGGREGATION, Bound.WATERMARK)


def test_an_operator_without_a_name_is_not_judged(whole: Callable[[str], Path]) -> None:
    report = read_checkpoint(open_path(whole("spark-3.5.6-hdfs")))
    nameless = tuple(replace(each, name=None, schemas=()) for each in report.operators)
    (operator,) = operators_of(replace(report, operators=nameless))
    assert operator.bound is Bound.UNKNOWN
    assert "names no operators" in operator.why
