"""Streams in local mode on a host whose default file system is an HDFS, as on a node of YARN.

The data folder is the URL of a folder in HDFS. Numbered scenario: (1) event_windows with relative paths, and the same
job with all that it has on this host, read their input to its end; (2) the first is verified, inspected, surveyed and
audited without Spark's help; (3) it is drilled: its driver killed, judged by a twin, on this host and in HDFS, and a
file of its checkpoint lost; (4) it is put back to a savepoint and goes on from a host that shares nothing but HDFS and
the store; (5) a checkpoint that was written under a bare path goes on under its URI.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import checkpoint_of, output_of
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.cli.app import run
from streamwarden.config.stored_spec import spec_to_dict
from streamwarden.drills.records.journal import DrillRun
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.auditing.auditing import audit
from streamwarden.services.monitoring.probe import probe
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import verify as verify_savepoint
from streamwarden.services.verifying.comparables import canonical
from streamwarden.services.workspace import Workspace
from streamwarden.sinks.files.output import read_output
from streamwarden.stream.spec import Backend, StreamSpec
from streamwarden.verification.comparing.balance import Outcome
from support.servers.hadoop import Hdfs
from support.servers.hdfs_streams import listing
from support.spark.drill_project import run_drill
from support.spark.drivers import Project, project
from support.spark.job_runs import publish, stream
from support.spark.verdicts import verify

pytestmark = pytest.mark.full

START = datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
FILES, EVENTS = 14, 900
BACK = 5
"""The batch of the savepoint."""
RECORDS = FILES * EVENTS
REPLAYED = (FILES - 2) * EVENTS
"""A fork begins behind the first batch, and its second one is the steady state."""
ANN = Author(by="ann", reason="the best one")

DRILLS = {
    "killed": "fault: {kind: kill_driver, attempts: 2, within: 2m, strikes: 1}",
    "killed_in_hdfs": "fault: {kind: kill_driver, attempts: 2, within: 2m, strikes: 1}",
    "damaged": "fault: {kind: checkpoint_damage, target: commit, damage: lost}",
}


def lines() -> list[list[str]]:
    def event(number: int, step: int) -> str:
        at = START + timedelta(minutes=5 * number, milliseconds=200 * step)
        time = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
        return json.dumps({"event_time": time, "user_id": step % 400, "action": "view"})

    return [[event(number, step) for step in range(EVENTS)] for number in range(FILES)]


def declare(home: Project, hdfs: Hdfs) -> None:
    """The streams and the drills as files of the project."""
    bounded = stream("event_windows", home.data, Backend.ROCKSDB)
    shutil.copytree(Path(bounded.job).parent, home.root / "spark_jobs")  # a job is inside its project
    for folder in ("streams", "drills"):
        (home.root / "config" / folder).mkdir(parents=True)
    for name, root in (("windows", ""), ("here", f"{home.data}/here/")):
        declared = {
            "name": name,
            "job": "spark_jobs/event_windows.py",
            "source": {
                "path": str(home.input) if root else "input",
                "options": bounded.source.options,
                "max_files_per_trigger": 1,
            },
            "sink": {"path": f"{root}output"},
            "checkpoint": f"{root}checkpoint",
            "quarantine": f"{root}quarantine",
            "trigger": {"processing_time": None, "available_now": True},
            "state": {"backend": "rocksdb", "shuffle_partitions": 1},
            "spark": {"master": "local[2]", "driver_memory": "700 MiB", "conf": bounded.spark.conf},
        }
        (home.root / "config/streams" / f"{name}.yaml").write_text(json.dumps(declared))
    for name, fault in DRILLS.items():
        at = f", at: '{hdfs.url}/drills'" if name == "killed_in_hdfs" else ""
        (home.root / "config/drills" / f"{name}.yaml").write_text(
            f"name: {name}\nstream: windows\n{fault}\nfork: {{rewind: {FILES - 1}{at}}}\n"
            "steady_state: {min_batches: 1, within: 5m}\nrecovery: {target: 8m, deadline: 8m}\n"
            f"verification: {{min_records: {REPLAYED}, oracle: twin}}\n"
        )


def opened(home: Project, hdfs: Hdfs, local: str = "var") -> Workspace:
    """As a host opens it whose own folder is `local`."""
    folder = home.root / local
    return Workspace.open(project=home.root, data=f"{hdfs.url}/windows", local_data=folder, store_url=home.url)


@dataclass
class Ran:
    """The runs that came to their end."""

    home: Project
    hdfs: Hdfs
    stored: StreamSpec
    local: StreamSpec

    @property
    def workspace(self) -> Workspace:
        return opened(self.home, self.hdfs)


def report(spec: StreamSpec) -> CheckpointReport:
    return read_checkpoint(checkpoint_of(spec), output=output_of(spec))


def rows(spec: StreamSpec) -> Counter[str]:
    output = read_output(str(spec.sink.path))
    assert output.problems == ()
    return Counter(canonical(row) for part in output.parts for row in part.rows(sorted(output.columns)))


@pytest.fixture(scope="module")
def ran(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with (
        project(tmp_path_factory.mktemp("hdfs_stream")) as home,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("HADOOP_CONF_DIR", str(hdfs.conf))
        patch.delenv("HADOOP_USER_NAME", raising=False)
        declare(home, hdfs)
        publish(home.input, lines())
        hdfs.shell("-mkdir", "-p", "/windows")
        hdfs.shell("-put", "-p", str(home.input), "/windows/input")
        with opened(home, hdfs) as workspace:
            made = Ran(home, hdfs, workspace.stream("windows"), workspace.stream("here"))
        drivers = [home.start(spec) for spec in (made.stored, made.local)]
        for driver in drivers:
            assert home.await_end(driver).kind is ExitKind.COMPLETED, home.log(driver)
        yield made


def test_the_output_in_hdfs_is_right_to_the_row(ran: Ran) -> None:
    outcome = verify(ran.stored)
    assert outcome.exactly_once, outcome.to_dict()
    assert (outcome.records, outcome.expected > 1000) == (RECORDS, True)


def test_a_local_path_is_local_although_the_default_file_system_is_hdfs(ran: Ran) -> None:
    """Nothing of the stream is in HDFS, where Spark would look up its bare paths."""
    outcome = verify(ran.local)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.records == RECORDS
    assert (Path(ran.local.checkpoint) / "commits/0").is_file()
    assert rows(ran.local) == rows(ran.stored)
    assert listing(ran.hdfs, "/").keys() == {
        path for path in listing(ran.hdfs, "/") if path.lstrip("/").startswith("windows/")
    }


def test_progress_and_waiting_input_are_seen(ran: Ran) -> None:
    seen = probe(ran.stored)
    assert (seen.problems, seen.log is not None and seen.log.gap) == ((), 0)
    assert seen.waiting is not None
    assert seen.waiting.count == 0
    assert seen.state
    assert ran.home.store.batches.window("windows")


def test_the_inspector_and_validate_read_it_without_spark(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    known = ["--project", str(ran.home.root), "--data", f"{ran.hdfs.url}/windows"]
    assert run([*known, "inspect", "windows", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["gap"], told["findings"], told["path"]) == (0, [], ran.stored.checkpoint)
    assert told["batches"][-1]["batch"] >= FILES - 1
    assert run([*known, "validate", "--json"]) == 0


@pytest.mark.parametrize("name", ["stored", "local"])
def test_the_books_balance(ran: Ran, name: str) -> None:
    found = audit(getattr(ran, name))
    assert found.outcome is Outcome.BALANCED, found.to_dict()


def passed(drilled: DrillRun) -> dict[str, object]:
    assert drilled.passed, drilled.reason
    counts: dict[str, object] = drilled.facts["reconciliation"]
    assert [counts[kind] for kind in ("lost", "duplicated", "unexpected", "wrong")] == [0, 0, 0, 0]
    return counts


def test_a_fork_on_this_host_that_is_killed_loses_and_doubles_nothing_by_its_twin(ran: Ran) -> None:
    with ran.workspace as workspace:
        drilled = run_drill(workspace, "killed")
    assert passed(drilled)["records"] == REPLAYED
    assert drilled.facts["fault"]["evidence"]["signal"] == signal.SIGKILL
    assert drilled.facts["fork"]["checkpoint"].startswith(str(ran.home.data))


def test_a_fork_in_hdfs_that_is_killed_loses_and_doubles_nothing_by_its_twin(ran: Ran) -> None:
    before = listing(ran.hdfs, "/windows")
    with ran.workspace as workspace:
        drilled = run_drill(workspace, "killed_in_hdfs")
    assert passed(drilled)["records"] == REPLAYED
    assert drilled.facts["fork"]["checkpoint"] == f"{ran.hdfs.url}/drills/{drilled.run_id}/fork/checkpoint"
    assert listing(ran.hdfs, "/drills") == {}
    assert listing(ran.hdfs, "/windows") == before


def test_a_lost_commit_of_a_fork_is_recovered_from(ran: Ran) -> None:
    with ran.workspace as workspace:
        drilled = run_drill(workspace, "damaged")
    assert passed(drilled)["records"] == REPLAYED


def test_a_stream_goes_on_from_a_savepoint_on_a_host_with_another_folder(ran: Ran) -> None:
    """The rows after the savepoint's batch are taken back, and written again by the next driver, whose host has nothing
    of the first one but the store, HDFS and the project."""
    written = rows(ran.stored)
    savepoints, saved = Savepoints.of(ran.stored), create(ran.stored, BACK, ANN)
    assert verify_savepoint(savepoints, saved) == ()
    restore(ran.home.store, ran.stored, saved.id, Request(author=ANN))
    assert 0 < rows(ran.stored).total() < written.total()
    with opened(ran.home, ran.hdfs, "of another host") as other:
        launched = other.fleet.start(other.stream("windows"), launched_by="test").record
        driver = launched.driver_id
        assert ran.home.await_end(driver).kind is ExitKind.COMPLETED, ran.home.log(driver)
    assert Path(launched.folder).is_relative_to(ran.home.root / "of another host")
    assert rows(ran.stored) == written
    assert report(ran.stored).findings == ()


BARE = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("user_id INT").json("file://{input}")
rows.writeStream.format("parquet").option("path", "{output}").option("checkpointLocation", "{checkpoint}").trigger(
    availableNow=True
).start().awaitTermination()
"""


def test_a_script_whose_bare_path_means_hdfs_is_refused_with_both_places(ran: Ran) -> None:
    """The file declares a folder of this host, and the script's own path is, for Spark, in HDFS. Nothing is written."""
    places = {name: f"{ran.home.data}/script/{name}" for name in ("checkpoint", "output")}
    spec = ran.home.spec("script", BARE.format(input=ran.home.input, **places), checkpoint=places["checkpoint"])
    spec = replace(spec, source=replace(spec.source, path=str(ran.home.input)), quarantine=None)
    driver = ran.home.start(replace(spec, sink=replace(spec.sink, path=places["output"])))
    ended = ran.home.await_end(driver)
    assert ended.kind is ExitKind.FAILED, ran.home.log(driver)
    assert f"the script names the checkpoint {ran.hdfs.url}{places['checkpoint']}" in ended.message
    assert f"declares, {places['checkpoint']}" in ended.message
    assert not [path for path in listing(ran.hdfs, "/") if "script" in path]


def test_a_user_without_the_right_is_said_and_not_tried_again(ran: Ran) -> None:
    denied = replace(ran.stored, name="denied", checkpoint=f"{ran.hdfs.url}/denied/checkpoint", quarantine=None)
    denied = replace(denied, sink=replace(denied.sink, path=f"{ran.hdfs.url}/denied/output"))
    driver = ran.home.start(denied, env={"HADOOP_USER_NAME": "nobody"})
    ended = ran.home.await_end(driver)
    assert (ended.kind, ended.cause, ended.curable) == (ExitKind.FAILED, "hdfs_access_denied", False), ended
    assert "user=nobody" in ended.message


AS_BEFORE = """
import importlib.util
import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.lifecycle.submission import spark_conf

spec = spec_from_dict(json.loads(Path(sys.argv[1]).read_text()))
builder = SparkSession.builder
for name, value in spark_conf(spec).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
found = importlib.util.spec_from_file_location("job", spec.job)
module = importlib.util.module_from_spec(found)
found.loader.exec_module(module)
writer = module.build(spark, spec).writeStream.format("parquet").option("path", spec.sink.path)
writer.queryName(spec.name).option("checkpointLocation", spec.checkpoint).trigger(availableNow=True).start()
spark.streams.active[0].awaitTermination()
"""


def test_a_checkpoint_of_bare_paths_goes_on_with_nothing_lost_or_doubled(ran: Ran, tmp_path: Path) -> None:
    """Half of the input is read as Streamwarden 0.1.0 names the folders to Spark, where files are the default."""
    root = ran.home.data / "a stream"
    spec = replace(
        ran.local,
        name="continued",
        checkpoint=f"{root}/checkpoint",
        source=replace(ran.local.source, path=f"{root}/input"),
        sink=replace(ran.local.sink, path=f"{root}/output"),
        quarantine=None,
    )
    publish(root / "input", lines()[: FILES // 2])
    (tmp_path / "spec.json").write_text(json.dumps(spec_to_dict(spec)))
    (tmp_path / "before.py").write_text(AS_BEFORE)
    env = {key: value for key, value in os.environ.items() if key != "HADOOP_CONF_DIR"}
    command = [sys.executable, str(tmp_path / "before.py"), str(tmp_path / "spec.json")]
    subprocess.run(command, env=env | {"PYSPARK_PYTHON": sys.executable}, check=True, timeout=300)
    before = report(spec)
    assert FILES // 2 - 1 <= before.position.committed < FILES - 1
    assert before.sink_newest == before.position.committed
    publish(root / "input", lines())
    driver = ran.home.start(spec)
    assert ran.home.await_end(driver).kind is ExitKind.COMPLETED, ran.home.log(driver)
    after = report(spec)
    assert (after.position.query_id, after.findings) == (before.position.query_id, ())
    outcome = verify(spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.records == RECORDS
    assert rows(spec) == rows(ran.local)
    assert audit(spec).outcome is Outcome.BALANCED
