"""A stream into a Delta table, and one into an Iceberg table, restart from every state that a kill can leave, with the
right output; a sink that writes a batch twice is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.drills.crash_states import Ending, Origin, Outcome
from streamwarden.services.crash_matrix.matrix import RunRecord, load, record, restart
from support.spark.drill_project import drill_project
from support.spark.environments import spark_with

# Nothing of the first tier runs a table's own Spark; there spark/proofs/test_crash_matrix.py restarts from states of
# files, and unit/drills/test_crash_states.py says which states a record has.
pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(3600)]

KINDS = {"delta": "log", "iceberg": "metadata"}
"""Kind of sink -> the part of its table in which a batch is committed."""


def recorded(kind: str, job: str, flights: Path, tmp_path: Path) -> RunRecord:
    sink = f"{{kind: {kind}, path: output/flights}}"
    with drill_project(
        tmp_path, inputs=flights, fault="kill_driver", job=job, spark=spark_with(kind), sink=sink
    ) as workspace:
        return record(workspace.stream("flights"), into=tmp_path / "matrix")


def texts(outcomes: list[Outcome]) -> str:
    return "\n".join(f"{each.state.name}: {each.ending}: {each.detail}" for each in outcomes)


@pytest.mark.parametrize("kind", KINDS)
def test_every_state_ends_with_the_right_output_or_with_an_error(kind: str, flights: Path, tmp_path: Path) -> None:
    run = recorded(kind, "flight_departures", flights, tmp_path)
    assert {"offsets", "state", "data", KINDS[kind], "commits"} <= {each.part for each in run.operations}
    matrix = restart(load(run.folder), run.states)
    by_origin = {origin: [each for each in matrix.outcomes if each.state.origin is origin] for origin in Origin}
    wrong = [each for each in by_origin[Origin.KILL] if each.ending is not Ending.RIGHT]
    assert not wrong, texts(wrong)
    assert not matrix.findings, texts(list(matrix.findings))
    assert len(by_origin[Origin.KILL]) >= 100
    assert {each.ending for each in by_origin[Origin.STORAGE]} == {Ending.RIGHT, Ending.REFUSED}


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_is_appended_again_is_found(kind: str, flights: Path, tmp_path: Path) -> None:
    """Before the rows are in the table, a restart writes them once; after that, a second time."""
    run = recorded(kind, "appends_unguarded", flights, tmp_path)
    killed = [each for each in run.states if each.origin is Origin.KILL and each.torn is None and each.batch == 8]
    last = killed[-1]
    before, after = restart(run, [killed[0], last]).outcomes
    assert before.ending is Ending.RIGHT, before.detail
    assert after.ending is Ending.DIFFERENT, after.detail
    assert "duplicated" in after.detail
