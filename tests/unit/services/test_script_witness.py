"""How the queries of a script are compared with the twin's, each by itself and all in one verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from streamwarden.lifecycle.forks.scripts import ForkQuery, OutputKind
from streamwarden.services.twins.keys import WHOLE, RowKey
from streamwarden.services.twins.scripts import QueryVerdict, together
from streamwarden.sinks.fork_output import AGAIN_NOTE, read_captured
from streamwarden.sinks.output import Output
from streamwarden.verification.tolerance import Tolerance


def capture(folder: Path, name: str, **columns: list[object]) -> None:
    (folder / name).mkdir(parents=True)
    parquet.write_table(pa.table(columns), folder / name / "part-0.parquet")


def test_a_capture_is_read_with_the_batch_of_each_row(tmp_path: Path) -> None:
    capture(tmp_path, "batch_id=0", id=[1, 2])
    capture(tmp_path, "batch_id=1", id=[], note=[])
    capture(tmp_path, "batch_id=2", note=["x"], id=[3])
    capture(tmp_path, "batch_id=3", id=[4])  # it was cut: nothing committed it
    output = read_captured(str(tmp_path), [0, 1, 2])
    assert output.columns == ("batch", "id", "note")
    assert output.rows == [(0, 1, None), (0, 2, None), (2, 3, "x")]
    assert (output.problems, dict(output.notes), output.files) == ((), {}, 3)


def test_a_committed_batch_that_was_never_handed_over_is_a_problem(tmp_path: Path) -> None:
    capture(tmp_path, "batch_id=0", id=[1])
    assert read_captured(str(tmp_path), [0, 1]).problems == (
        "batch 1 is committed, and its rows were never handed over",
    )


def test_a_batch_that_was_executed_again_is_counted_and_has_to_hand_over_the_same_rows(tmp_path: Path) -> None:
    capture(tmp_path, "batch_id=0", id=[1, 2])
    capture(tmp_path, "_again/batch_id=0.1", id=[2, 1])
    output = read_captured(str(tmp_path), [0])
    assert (output.problems, output.notes[AGAIN_NOTE], len(output.rows)) == ((), 1, 2)
    capture(tmp_path, "_again/batch_id=0.2", id=[2])
    assert read_captured(str(tmp_path), [0]).problems == ("batch 0 was executed again and handed over other rows",)


def verdict(
    name: str,
    mine: list[tuple[object, ...]],
    its: list[tuple[object, ...]],
    *,
    key: tuple[str, ...] = (),
    tolerances: Mapping[str, Tolerance] | None = None,
    problems: tuple[str, ...] = (),
) -> QueryVerdict:
    columns = ("id", "total")
    query = ForkQuery(
        name=name,
        order=1,
        checkpoint="/c",
        kind=OutputKind.CAPTURE,
        output="/o",
        instead_of="the topic alerts",
        format="kafka",
    )
    before = QueryVerdict(
        query=query,
        batches=(0, 1),
        key=RowKey(key, WHOLE),
        records=10,
        problems=problems,
        mine=Output.of_rows(columns, mine),
    )
    return before.compared(Output.of_rows(columns, its), tolerances or {})


def test_all_queries_make_one_verdict_that_names_query_and_row() -> None:
    right = verdict("plain", [(1, 1.0), (1, 1.0)], [(1, 1.0), (1, 1.0)])
    lost = verdict("alerts", [(1, 1.0)], [(1, 1.0), (2, 2.0)])
    outcome = together([right, lost])
    assert (outcome.expected, outcome.actual, outcome.lost, outcome.records) == (4, 3, 1, 10)
    (sample,) = outcome.samples["lost"]
    assert sample == "alerts: (id=2, total=2.0)"
    assert (right.exact, lost.exact) == (True, False)
    assert "1 lost" in lost.sentence
    assert "what the topic alerts makes of them is not compared" in lost.sentence


@pytest.mark.parametrize(("bound", "wrong"), [(1e-3, 0), (1e-9, 1)])
def test_a_tolerance_holds_in_the_verdict_on_all_queries(bound: float, wrong: int) -> None:
    one = verdict("sums", [(1, 1.0)], [(1, 1.00001)], key=("id",), tolerances={"total": Tolerance(relative=bound)})
    assert together([one]).wrong == one.outcome.wrong == wrong


def test_a_problem_of_one_query_is_a_problem_of_the_verdict() -> None:
    outcome = together([verdict("alerts", [(1, 1.0)], [(1, 1.0)], problems=("batch 7 was planned",))])
    assert outcome.problems == ("alerts: batch 7 was planned",)
    assert not outcome.exactly_once
