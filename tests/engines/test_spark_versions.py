"""A stream on each supported version of Spark, in an environment of its own: started, measured, stopped, drilled,
audited, inspected. What was seen goes into `tests/data/spark_versions.json`, of which docs/reference/spark-versions.md
is made."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.jvm.environments import environment_of
from streamwarden.checkpoint.spark_support import PROGRAMS, SUPPORTED, lacks, parsed
from streamwarden.config import spark_environment
from streamwarden.drills.records.journal import DrillRun
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.workspace import Workspace
from support.command_line import in_process
from support.spark.drill_project import await_commits, drill_project, run_drill
from support.spark.drivers import QUICK, until
from support.spark.environments import RELEASES, environment, key_of

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(1200)]

RECORD = Path(__file__).parents[1] / "data" / "spark_versions.json"


def run_and_stop(workspace: Workspace) -> str:
    """Start the stream, wait until its progress is stored, and stop it; where it stopped."""
    spec = workspace.stream("flights")
    driver = workspace.fleet.start(spec, launched_by="test").record.driver_id
    await_commits(Path(spec.checkpoint), 2)
    until("reports of batches", lambda: len(workspace.store.batches.window("flights", limit=5)) >= 2)
    workspace.fleet.stop("flights", requested_by="test", reason="the matrix")
    ended = workspace.fleet.observe(driver).exit
    assert ended is not None
    assert ended.kind is ExitKind.STOPPED, ended
    return "in mid-batch" if ended.cut_batch else "at a batch boundary"


def drilled(workspace: Workspace) -> str:
    """The verdict of the drill `kill_driver`, by its twin alone."""
    run = run_drill(workspace)
    assert run.passed, run.reason
    assert run.facts["twin"]["alone"]
    return "passed" if run.facts["twin"]["outcome"]["exactly_once"] else "deviated"


def audited(workspace: Workspace, spark: str) -> str:
    """What the audit says; it is refused on the versions that lack the reader of state, and on no other."""
    answer = in_process(workspace.project, "audit", "flights", "--share", "1", "--json")
    if not lacks(parsed(spark), PROGRAMS["audit"]):
        assert answer.code == 0, answer
        return "balanced"
    assert PROGRAMS["audit"].value.title in answer.err, answer
    return "refused"


def inspected(workspace: Workspace) -> str:
    """What `inspect` finds of the state."""
    report = in_process(workspace.project, "inspect", "flights", "--json")
    assert report.code == 0, report
    (operator,) = report.json["operators"]
    return f"{operator['name']}, {report.json['provider']}"


def seen(workspace: Workspace) -> dict[str, Any]:
    """What became of the stream on the Spark of its environment."""
    runs_in = environment_of(workspace.stream("flights").spark)
    return {
        "spark": runs_in.version,
        "scala": runs_in.scala,
        "python": runs_in.python_version.rpartition(".")[0],
        "stop": run_and_stop(workspace),
        "audit": audited(workspace, runs_in.version),
        "inspect": inspected(workspace),
        "kill_driver": drilled(workspace),
    }


def candidate(release: str) -> Any:
    """A release whose version is supported, or one that is tried before it is."""
    untried = pytest.mark.xfail(parsed(release) not in SUPPORTED, reason="not supported yet", strict=False)
    return pytest.param(release, marks=untried)


@pytest.mark.parametrize("release", [*map(candidate, RELEASES), version("pyspark")])
def test_a_stream_runs_on_this_version(
    release: str, tmp_path: Path, flights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_environment, "SUPPORTED", (*SUPPORTED, parsed(release)))
    spark = {"master": "local[2]", "driver_memory": "1 GB", "conf": QUICK}
    if release in RELEASES:
        spark |= key_of(environment(release))
    with drill_project(
        tmp_path,
        inputs=flights,
        fault="kill_driver",
        oracle="twin",
        spark=json.dumps(spark),
        batches=12,
        min_records=1000,
    ) as workspace:
        found = seen(workspace)
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    RECORD.write_text(json.dumps({**known, found["spark"]: found}, indent=2, sort_keys=True) + "\n")
    assert found["stop"] == "at a batch boundary"
    assert found["kill_driver"] == "passed"


def upgrading(root: Path, flights: Path, before: str, after: Path | str, job: str = "flight_departures") -> DrillRun:
    """The drill `upgrade_spark` of a stream, judged by its twin on the version before."""
    with drill_project(
        root,
        inputs=flights,
        fault="upgrade_spark",
        oracle="twin",
        job=job,
        spark=json.dumps({"master": "local[2]", "driver_memory": "1 GB", "conf": QUICK, **key_of(environment(before))}),
        batches=12,
        min_records=1000,
        options={"python": str(after)},
    ) as workspace:
        return run_drill(workspace)


@pytest.mark.parametrize("before", ["3.5.9", "4.1.4"])
def test_a_newer_spark_goes_on_from_the_checkpoint_of_an_older_one(before: str, tmp_path: Path, flights: Path) -> None:
    run = upgrading(tmp_path, flights, before, sys.executable)
    assert run.passed, run.reason
    assert f"from Spark {before} to {version('pyspark')}" in run.facts["fault"]["message"]
    assert run.facts["twin"]["outcome"]["exactly_once"]


def test_an_output_that_the_other_spark_changes_is_noticed(tmp_path: Path, flights: Path) -> None:
    """The negative control. The older Spark goes on from this checkpoint, too."""
    run = upgrading(tmp_path, flights, "4.1.4", environment("3.5.9"), job="names_its_spark")
    assert run.deviated, run.reason
    counts = run.facts["twin"]["outcome"]
    assert (counts["lost"], counts["duplicated"]) == (0, 0)
    assert counts["wrong"] > 0
    assert "3.5.9" in str(counts["samples"]["wrong"])
