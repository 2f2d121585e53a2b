"""Drills of an unmodified script with two queries, with real Spark: each query is judged, a lost row is named, and so
is a batch that the script's own function wrote twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from streamwarden.drills.records.journal import DrillRun
from streamwarden.services.workspace import Workspace
from support.spark.drill_project import run_drill
from support.spark.script_project import APPEND, FILES, LOST, ROWS, SEED, clicks_project, own_files

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]

JOB_READS = "A job reads"
TWIN_LOG = "runs/1/fork/program/twin.log"


def driver_logs(workspace: Workspace, run: DrillRun) -> list[str]:
    """The logs of the fork's drivers, in the order of their starts."""
    folder = workspace.data / "drivers" / run.facts["fork"]["stream"]
    return [path.read_text() for path in sorted(folder.glob("*/driver.log"), key=lambda path: path.stat().st_mtime)]


def report(workspace: Workspace, run: DrillRun) -> str:
    return (workspace.data / "drills" / run.run_id / "report.md").read_text()


@pytest.fixture(scope="module")
def losing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, Future[DrillRun]]]:
    """The drill of a script that loses a row and appends a batch twice, which runs beside the other one."""
    root = tmp_path_factory.mktemp("losing")
    worker = f'batch.foreachPartition(lambda rows: open("{root}/of_a_worker", "a").close())'
    with (
        clicks_project(root, write=f"{worker}; {APPEND}", seed=SEED, foreach_batch="run") as workspace,
        ThreadPoolExecutor(1) as beside,
    ):
        yield workspace, beside.submit(run_drill, workspace, "kill")


@pytest.fixture(scope="module", autouse=True)
def beside(request: pytest.FixtureRequest) -> None:
    """The second tier's drill begins before the first tier's."""
    if request.config.getoption("--full"):
        request.getfixturevalue("losing")


def test_both_queries_of_a_killed_script_are_proven_by_the_twin(tmp_path: Path) -> None:
    with clicks_project(tmp_path) as workspace:
        before = own_files(tmp_path)
        run = run_drill(workspace, name="kill")
        assert run.passed, run.reason
        assert own_files(tmp_path) == before, "the stream's own places are as they were"
        twin = run.facts["twin"]
        counts, queries = twin["outcome"], twin["outcome"]["notes"]["queries"]
        assert sorted(queries) == ["alerts", "by_page"]
        assert [counts[kind] for kind in ("lost", "duplicated", "unexpected", "wrong")] == [0, 0, 0, 0]
        assert counts["expected"] == counts["actual"] > FILES * ROWS
        assert "0 lost, 0 duplicated, 0 unexpected, 0 wrong in 400 rows from 400 records" in queries["alerts"]
        assert "the function that the script passes to foreachBatch" in queries["alerts"]
        assert run.facts["fault"]["landed"]
        struck = run.facts["fault"]["struck"]
        assert (struck["phase"], struck["wrote"]) == ("after the sink had written", True)
        assert run.facts["fork"]["unseen"] == FILES
        assert [each.name for each in workspace.store.queries.of(run.facts["fork"]["stream"])] == ["alerts", "by_page"]
        shown = report(workspace, run)
        assert "not exercised: whether the function alert() (clicks.py:" in shown
        assert "duplicates nothing" not in shown
        assert "query alerts" in shown
        assert "query by_page" in shown
        home = workspace.data / "drills" / run.run_id
        assert not (workspace.data / "marker").exists(), "the fork and its twin have a working folder of their own"
        first, *_ = (line for log in driver_logs(workspace, run) for line in log.splitlines() if JOB_READS in line)
        (in_twin,) = (line for line in (home / TWIN_LOG).read_text().splitlines() if JOB_READS in line)
        assert first == in_twin, "a job reads nothing that tells the twin from the fork's first driver"
        assert str(home / "work") in first
        assert "marker" not in first
        assert not (home / "work").exists()
        assert not list(home.glob("*/checkpoint/*/state"))
        outside = run.facts["outside"]
        assert (outside["changed"], outside["servers"]) == ([], [])
        assert "| not proven | that the job is right: an error that each run makes" in shown
        assert list(home.glob("fork/output/by_page/_spark_metadata"))


@pytest.mark.full  # in the first tier drills/test_negative_controls, and unit/services/proofs/test_script_witness
def test_a_row_that_the_recovery_loses_and_a_batch_that_the_function_appends_twice_are_named(
    losing: tuple[Workspace, Future[DrillRun]],
) -> None:
    workspace, drill = losing
    run = drill.result()
    assert run.deviated, run.reason
    counts = run.facts["twin"]["outcome"]
    assert counts["lost"] == 2, "in what the function got, and in what it wrote"
    assert all("alerts" in row and f"id={LOST}" in row for row in counts["samples"]["lost"])
    queries = counts["notes"]["queries"]
    assert "1 lost" in queries["alerts"]
    assert "0 lost" in queries["by_page"]
    assert f"1 lost, {ROWS} duplicated" in queries["alerts/_writes/output/alerts"]
    assert not run.facts["not_exercised"]
    of_a_worker = [f"{workspace.project}/of_a_worker"]
    assert run.facts["outside"]["changed"] == of_a_worker, "the driver's record has no such file"
    assert not run.facts["judgement"]["success"]
    assert f"id={LOST}" in report(workspace, run)
