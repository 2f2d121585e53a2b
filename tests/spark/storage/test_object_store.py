"""event_windows with all that it has in an object store, and nothing of it on this host.

The data folder is the URL of the bucket, and the stream's file has relative paths.

Numbered scenario: (1) a driver reads the input to its end; (2) a fork in the store is drilled: its driver is killed in
mid-batch; (3) the result is verified, the checkpoint inspected, the stream surveyed, all without Spark. In the second
tier (4) the stream is put back to a savepoint, which is killed in the middle and completed; (5) at the same time a fork
of it runs on this host, the stream itself goes on from the savepoint, a driver with a wrong secret, and one whose store
does not answer.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.cli.app import run
from streamwarden.drills.records.journal import DrillRun
from streamwarden.errors import LaunchRefused
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.forks.fork import Fork
from streamwarden.lifecycle.savepoints.savepoint import root_of
from streamwarden.services.forks.forks import fork
from streamwarden.services.monitoring.probe import probe
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.verifying.comparables import canonical
from streamwarden.services.workspace import Workspace
from streamwarden.sinks.files.output import read_output
from streamwarden.stream.spec import Backend, StorageSpec, StreamSpec
from support.airflow.harness import free_port
from support.servers.object_store import BUCKET, ObjectStore, Versions, running
from support.spark.drill_project import run_drill
from support.spark.drivers import Project, project, until
from support.spark.job_runs import publish, stream
from support.spark.verdicts import verify

pytestmark = pytest.mark.spark

START = datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
FILES, EVENTS, BAD = 12, 300, 2
BACK = 5
"""The batch of the savepoint."""
RECORDS = FILES * EVENTS + BAD
ROOT, AT = f"s3a://{BUCKET}/windows", f"s3a://{BUCKET}/drills"
FAST_FAILURE = {"spark.hadoop.fs.s3a.attempts.maximum": "1", "spark.hadoop.fs.s3a.retry.limit": "1"}

DRILL = f"""
name: killed
stream: windows
fault: {{kind: kill_driver, attempts: 2, within: 2m}}
fork: {{rewind: 7, at: {AT}}}
steady_state: {{min_batches: 1, within: 5m}}
recovery: {{target: 8m, deadline: 8m}}
"""


def lines() -> list[list[str]]:
    def event(number: int, step: int) -> str:
        at = START + timedelta(minutes=5 * number, milliseconds=200 * step)
        time = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
        return json.dumps({"event_time": time, "user_id": step % 400, "action": "view"})

    files = [[event(number, step) for step in range(EVENTS)] for number in range(FILES)]
    files[0].append("no event")
    files[-1].append('{"event_time":"2099-01-01T00:00:00.000Z","user_id":1,"action":"from the future"}')
    return files


def declare(home: Project, oracle: str) -> StreamSpec:
    """The stream and its drill as files of the project."""
    bounded = stream("event_windows", home.data, Backend.ROCKSDB)
    shutil.copytree(Path(bounded.job).parent, home.root / "spark_jobs")  # a job is inside its project
    declared = {
        "name": "windows",
        "job": "spark_jobs/event_windows.py",
        "source": {"path": "input", "options": bounded.source.options, "max_files_per_trigger": 1},
        "sink": {"path": "windows/output"},
        "checkpoint": "windows/checkpoint",
        "quarantine": "windows/quarantine",
        "storage": {"connection": "lake"},
        "trigger": {"processing_time": None, "available_now": True},
        "state": {"backend": "rocksdb", "shuffle_partitions": 1},
        "spark": {"master": "local[1]", "driver_memory": "700 MiB", "conf": bounded.spark.conf},
    }
    drill = f"{DRILL}verification: {{min_records: {RECORDS}, oracle: {oracle}}}\n"
    for kind, name, text in (("streams", "windows", json.dumps(declared)), ("drills", "killed", drill)):
        (home.root / "config" / kind).mkdir(parents=True)
        (home.root / "config" / kind / f"{name}.yaml").write_text(text)
    with opened(home) as workspace:
        return workspace.stream("windows")


def opened(home: Project) -> Workspace:
    return Workspace.open(project=home.root, data=f"s3a://{BUCKET}", local_data=home.data)


def in_store(spec: StreamSpec, name: str, connection: str = "lake", **conf: str) -> StreamSpec:
    return replace(
        spec,
        name=name,
        checkpoint=f"s3a://{BUCKET}/{name}/checkpoint",
        source=replace(spec.source, path=f"s3a://{BUCKET}/input"),
        sink=replace(spec.sink, path=f"s3a://{BUCKET}/{name}/output"),
        storage=StorageSpec(connection=connection),
        quarantine=None,
        spark=replace(spec.spark, conf=spec.spark.conf | conf),
    )


@dataclass
class Ran:
    """The run that came to its end, and its store."""

    home: Project
    store: ObjectStore
    spec: StreamSpec

    def report(self) -> CheckpointReport:
        output = open_path(self.spec.sink.path, "lake")
        return read_checkpoint(open_path(self.spec.checkpoint, "lake"), output=output)

    def quarantined(self) -> list[str]:
        return [key for key in self.store.keys("windows/quarantine/query=") if key.endswith(".json")]

    @property
    def mark(self) -> str:
        (mark,) = [key for key in self.store.keys("windows/quarantine/") if "/_done-" in key]
        return mark

    def rows(self) -> Counter[str]:
        output = read_output(str(self.spec.sink.path), connection="lake")
        assert output.problems == ()
        return Counter(canonical(row) for part in output.parts for row in part.rows(sorted(output.columns)))

    def object(self, key: str) -> bytes:
        content: bytes = self.store.client().get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return content


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """With `--full` a twin judges the drill as well."""
    with (
        running() as store,
        project(tmp_path_factory.mktemp("object_store")) as home,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("AIRFLOW_CONN_LAKE", store.connection())
        spec = declare(home, "auto" if request.config.getoption("--full") else "job")
        publish(home.input, lines())
        store.put(home.input, "input")
        driver = home.start(spec)
        assert home.await_end(driver).kind is ExitKind.COMPLETED, home.log(driver)
        yield Ran(home, store, spec)


def test_relative_paths_are_in_the_store_and_what_belongs_to_the_host_is_not(ran: Ran) -> None:
    assert (ran.spec.checkpoint, ran.spec.sink.path) == (f"{ROOT}/checkpoint", f"{ROOT}/output")
    assert root_of(ran.spec) == f"s3a://{BUCKET}/savepoints/windows"
    assert {key.partition("/")[0] for key in ran.store.keys("")} <= {"input", "windows"}
    assert not list(ran.home.data.glob("*/**/commits"))


def test_the_output_is_right_to_the_row(ran: Ran) -> None:
    outcome = verify(ran.spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert (outcome.records, outcome.expected > 1000) == (RECORDS, True)


@dataclass
class Drilled:
    """The drill, and what was in the store before and after it."""

    run: DrillRun
    before: Versions
    after: Versions


@pytest.fixture(scope="module")
def drilled(ran: Ran) -> Drilled:
    before = ran.store.versions()
    with opened(ran.home) as workspace:
        run = run_drill(workspace, name="killed")
    return Drilled(run, before, ran.store.versions())


def test_a_fork_in_the_store_that_is_killed_in_mid_batch_loses_and_doubles_nothing(drilled: Drilled) -> None:
    run = drilled.run
    assert run.passed, run.reason
    fork, proof, counts = (run.facts[each] for each in ("fork", "fault", "reconciliation"))
    assert fork["checkpoint"] == f"{AT}/{run.run_id}/fork/checkpoint"
    assert fork["output"] == f"{AT}/{run.run_id}/fork/output"
    assert fork["batch"] >= 0
    assert proof["evidence"]["signal"] == signal.SIGKILL
    assert proof["planned"] == proof["committed"] + 1 > fork["batch"] + 1
    assert run.facts["recovery"]["first_new_batch"] == proof["planned"]
    assert (counts["records"], counts["exactly_once"]) == (RECORDS, True)
    assert counts["expected"] == counts["actual"] > 500
    assert all(prediction["seconds"] is not None for prediction in run.facts["predicted"])


def test_a_drill_leaves_the_store_as_it_was(drilled: Drilled) -> None:
    new = drilled.after.keys() - drilled.before.keys()
    assert new <= {"drills/"}, "nothing but the sign of its folder"
    assert {key: drilled.after.get(key) for key in drilled.before} == drilled.before


def test_what_is_evidence_is_on_this_host(ran: Ran, drilled: Drilled) -> None:
    facts = drilled.run.facts
    home = ran.home.data / "drills" / drilled.run.run_id / "fork"
    committed = {int(path.name) for path in (home / "checkpoint/commits").iterdir()}
    assert {batch["batch_id"] for batch in facts["batches"]} <= committed
    assert list((home / "output").glob("*.parquet"))
    assert list((home / "quarantine").glob("query=*/batch=*/*.json"))
    assert not (home / "checkpoint/state").exists()
    assert set(facts["healing"]["removed"]) >= {facts["fork"]["checkpoint"], "fork/input"}


def test_a_file_that_is_lost_is_noticed_by_both_readers(ran: Ran) -> None:
    data = next(key for key in ran.store.keys("windows/output/") if key.endswith(".parquet"))
    with ran.store.without(data):
        outcome = verify(ran.spec)
        assert not outcome.exactly_once
        assert f"names {data.rpartition('/')[2]}, which is not there" in " ".join(outcome.problems)
        assert [finding.consequence.value for finding in ran.report().findings] == ["loses"]
    since_compaction = FILES - 2
    with ran.store.without(f"windows/output/{SINK_LOG}/{since_compaction}"):
        assert f"the manifest has no entry for the committed batch {since_compaction}" in verify(ran.spec).problems
    assert verify(ran.spec).exactly_once


def test_the_inspector_reads_it_without_spark(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    known = ["--project", str(ran.home.root), "inspect", ran.spec.checkpoint, "--output", str(ran.spec.sink.path)]
    assert run([*known, "--connection", "lake", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["gap"], told["findings"]) == (0, [])
    assert told["path"] == ran.spec.checkpoint
    assert told["batches"][-1]["batch"] >= FILES - 1
    assert told["state_bytes"] > 0


def test_health_sees_the_checkpoint_and_the_input_in_front_of_it(ran: Ran) -> None:
    seen = probe(ran.spec)
    assert seen.problems == ()
    assert seen.log is not None
    assert seen.log.gap == 0
    assert seen.waiting is not None
    assert seen.waiting.count == 0
    assert seen.state
    assert all(each.size for each in seen.state)


def test_every_file_is_written_once_and_whole(ran: Ran) -> None:
    """No log is published by a rename, which in such a store is a copy that can stop half way."""
    names = [key.rpartition("/")[2] for part in ("checkpoint", "output") for key in ran.store.keys(f"windows/{part}/")]
    assert names
    assert not [name for name in names if name.endswith(".tmp") or name.startswith("_temporary")]


def test_no_secret_is_in_the_drivers_folders(ran: Ran) -> None:
    found = [path for path in (ran.home.data / "drivers").rglob("*") if path.is_file()]
    assert any(path.name == files.PROPERTIES and b"fs.s3a.endpoint" in path.read_bytes() for path in found)
    assert not [path for path in found if ran.store.secret.encode() in path.read_bytes()]


@dataclass
class PutBack:
    """A restore that was killed and completed, and what was seen of it.

    Args:
        before: the stream's objects before it; written: the rows of the output then, which the oracle has judged.
        refused: the launch between the two runs; done: as the last run says; left: the rows before the stream goes on.
    """

    before: Versions
    written: Counter[str]
    refused: LaunchRefused
    done: dict[str, Any]
    left: Counter[str]


def put_back(ran: Ran) -> PutBack:
    before, written = ran.store.versions("windows/"), ran.rows()
    saved = create(ran.spec, BACK, Author(by="ann", reason="the best one"))
    command = [sys.executable, "-m", "streamwarden.cli", "--project", str(ran.home.root), "--data", f"s3a://{BUCKET}"]
    command += ["savepoint", "restore", "windows", saved.id, "--no-proof", "--json"]
    process = subprocess.Popen(command)

    def is_closed() -> bool:
        return process.poll() is not None or b"exchange.json" in ran.object("windows/checkpoint/metadata")

    until("the checkpoint is closed", is_closed, poll=0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it was killed in the middle"
    with pytest.raises(LaunchRefused) as refused:
        ran.home.start(ran.spec)
    done = subprocess.run(command, check=True, capture_output=True)
    return PutBack(before, written, refused.value, json.loads(done.stdout), ran.rows())


@dataclass
class Four:
    forked: Fork
    kept_aside: list[str]
    expected: int
    back: PutBack
    again: ExitRecord
    fork_ended: ExitRecord
    refused: ExitRecord
    alone: ExitRecord


of_the_second_tier = pytest.mark.full
"""In the first tier unit/services/savepoints/test_stored_restores kills restores in a store, spark/proofs/test_fork_run
runs forks, and unit/lifecycle has the causes."""


@pytest.fixture(scope="module")
def four(ran: Ran, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Four]:
    kept_aside = ran.quarantined()
    forked = fork(ran.spec, into=tmp_path_factory.mktemp("fork") / "f", rewind=3)
    expected = verify(ran.spec).expected
    back = put_back(ran)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_WRONG", ran.store.connection(secret="of-somebody-else"))
        patch.setenv("AIRFLOW_CONN_NOBODY", ran.store.connection(endpoint=f"http://127.0.0.1:{free_port()}"))
        specs = [
            ran.spec,
            forked.spec,
            in_store(ran.spec, "refused", "wrong"),
            in_store(ran.spec, "alone", "nobody", **FAST_FAILURE),
        ]
        drivers = [ran.home.start(spec) for spec in specs]
        yield Four(forked, kept_aside, expected, back, *map(ran.home.await_end, drivers))


@of_the_second_tier
def test_a_stream_goes_on_from_a_savepoint_whose_restore_was_killed(ran: Ran, four: Four) -> None:
    """No row is lost or doubled, and no object: what was taken back is kept beside."""
    assert "a restore of the stream was interrupted" in four.back.refused.observed
    assert four.back.done["resumed"]
    assert 0 < four.back.left.total() < four.back.written.total(), "it was taken back"
    assert ran.rows() == four.back.written
    assert ran.report().findings == ()
    kept = {digest for digest, _ in ran.store.versions("windows/").values()}
    assert {key for key, (digest, _) in four.back.before.items() if digest not in kept} <= {ran.mark}


@of_the_second_tier
def test_a_fork_is_local_and_ends_as_its_origin_did(ran: Ran, four: Four) -> None:
    spec = four.forked.spec
    assert four.fork_ended.kind is ExitKind.COMPLETED
    assert four.forked.unseen > 0
    assert not spec.in_object_store
    assert spec.connections == ()
    outcome = verify(spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.expected == four.expected


@of_the_second_tier
def test_what_was_kept_aside_is_not_written_again_by_the_next_driver(ran: Ran, four: Four) -> None:
    """Their names are new each time that they are written. A batch that was taken back writes its own again."""
    assert four.again.kind is ExitKind.COMPLETED
    assert [key.split("/")[3] for key in four.kept_aside] == ["batch=0", f"batch={FILES - 1}"]
    first, last = ran.quarantined()
    assert (first, last.split("/")[3]) == (four.kept_aside[0], f"batch={FILES - 1}")
    assert last != four.kept_aside[1]
    assert int(ran.object(ran.mark)) >= FILES - 1


@of_the_second_tier
def test_a_wrong_secret_is_said_and_not_tried_again(four: Four) -> None:
    assert four.refused.kind is ExitKind.FAILED
    assert not four.refused.curable
    assert "storage.connection" in four.refused.next_step
    assert "of-somebody-else" not in four.refused.message


@of_the_second_tier
def test_a_store_that_does_not_answer_is_waited_for(four: Four) -> None:
    assert four.alone.kind is ExitKind.FAILED
    assert four.alone.curable
    assert four.alone.cause == "object_store_unavailable"
