"""Drills of a stream in cluster mode on a real YARN: the driver of the fork is an application master, killed there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters import processes
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.fleet.applications.submission import submit
from streamwarden.services.replay.replay import replay
from streamwarden.services.workspace import Workspace
from support.servers.hadoop import Hdfs, Yarn
from support.spark.drill_project import drill_project, run_drill
from support.spark.drivers import QUICK

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(1800)]

FEW, BATCHES = 12_000, 8


def in_cluster(yarn: Yarn) -> str:
    """The section `spark` of a stream in cluster mode, as YAML."""
    return json.dumps(
        {
            "master": "yarn",
            "deploy_mode": "cluster",
            "connection": "yarn_cluster",
            "driver_memory": "1 GB",
            "executors": {"instances": 1, "cores": 2, "memory": "1 GB"},
            "conf": {**QUICK, **yarn.spark_conf(sys.executable)},
        }
    )


@pytest.fixture
def workspace(tmp_path: Path, yarn: Yarn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """A stream in cluster mode over 12,000 flights, and the drill `kill_driver` of its fork, which a twin judges."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf))
    inputs = tmp_path / "flights"
    replay(inputs, rows_per_file=500, limit=FEW)
    few: dict[str, Any] = {"batches": BATCHES, "min_records": FEW, "oracle": "twin", "spark": in_cluster(yarn)}
    with drill_project(tmp_path / "project", inputs=inputs, fault="kill_driver", **few) as opened:
        yield opened
    for application in yarn.applications():
        if application["finalStatus"] == "UNDEFINED":
            yarn.kill_application(application["id"])


def test_a_fork_in_cluster_mode_is_killed_and_goes_on(workspace: Workspace, yarn: Yarn) -> None:
    """Each of its drivers is an application of its own, of one attempt. The killed one was killed in mid-batch, the
    other one finished the input, and a twin finds every row once."""
    known = {application["id"] for application in yarn.applications()}
    run = run_drill(workspace)

    assert run.passed, run.reason
    counts = run.facts["reconciliation"]
    assert [counts[kind] for kind in ("lost", "duplicated", "unexpected", "wrong")] == [0, 0, 0, 0]
    assert counts["records"] == FEW
    mine = [application for application in yarn.applications() if application["id"] not in known]
    assert [application["finalStatus"] for application in mine] == ["FAILED", "SUCCEEDED"]
    attempts = [yarn.rest(f"cluster/apps/{application['id']}/appattempts") for application in mine]
    assert [len(found["appAttempts"]["appAttempt"]) for found in attempts] == [1, 1]


def test_a_stream_with_all_it_has_in_hdfs_passes_in_cluster_mode(
    tmp_path: Path, yarn: Yarn, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Input, checkpoint and output are in HDFS, which is the default file system of all; so are checkpoint and output
    of the fork that is drilled, and what Spark ships to the containers."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.configure(tmp_path / "conf", hdfs)))
    replay(tmp_path / "flights", rows_per_file=500, limit=FEW)
    hdfs.shell("-put", str(tmp_path / "flights"), "/flights")
    root = f"{hdfs.url}/cluster"
    few: dict[str, Any] = {
        "batches": BATCHES,
        "min_records": FEW,
        "oracle": "twin",
        "spark": in_cluster(yarn),
        "source": f"{{{{path: '{hdfs.url}/flights', format: json, max_files_per_trigger: 4}}}}",
        "sink": f"{{path: '{root}/output'}}",
        "checkpoint": f"'{root}/checkpoint'",
        "at": f"{hdfs.url}/drills",
    }
    known = {application["id"] for application in yarn.applications()}
    with drill_project(tmp_path / "project", inputs=tmp_path / "flights", fault="kill_driver", **few) as workspace:
        run = run_drill(workspace)

    assert run.passed, run.reason
    counts = run.facts["reconciliation"]
    assert [counts[kind] for kind in ("lost", "duplicated", "unexpected", "wrong")] == [0, 0, 0, 0]
    assert counts["records"] == FEW
    ends = [found["finalStatus"] for found in yarn.applications() if found["id"] not in known]
    assert ends == ["FAILED", "SUCCEEDED"]


def test_a_driver_on_another_host_is_killed_through_the_resource_manager(workspace: Workspace, yarn: Yarn) -> None:
    """The same application as a host sees it that cannot see its processes: YARN kills its container, and the recorded
    end names the signal. A second kill finds nothing."""
    fleet, spec = workspace.fleet, replace(workspace.stream("flights"), name="hidden")
    record, application = fleet.submit(spec, launched_by="test", through=partial(submit, spec, environ={}), env={})
    fleet.wait(record.driver_id, timeout=300, until=lambda seen: seen.record.started_at is not None)
    (container,) = yarn.containers(application)[:1]
    with fleet.elsewhere(record.driver_id) as away:
        assert away.kill(record.driver_id)
    assert processes.identity(container.pid) is None
    end = fleet.wait(record.driver_id, timeout=60).exit

    assert end is not None
    assert (end.kind, end.signal) == (ExitKind.KILLED, 9)
    assert yarn.application(application)["finalStatus"] == "FAILED"
    assert not fleet.kill(record.driver_id)
