"""event_windows with input, checkpoint and output in an object store, and nothing of them on this host.

Numbered scenario: (1) a driver is killed in mid-batch, a second one ends the input; (2) the result is verified, the
checkpoint inspected, the stream surveyed, all without Spark; (3) at the same time a fork of it runs, a driver with a
wrong secret, and one whose store does not answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from streamwarden.adapters.files import open_path
from streamwarden.adapters.forks import fork
from streamwarden.adapters.outputs import MANIFEST
from streamwarden.adapters.surroundings import survey
from streamwarden.adapters.verification import verify
from streamwarden.checkpoint.report import CheckpointReport, read_checkpoint
from streamwarden.cli.app import run
from streamwarden.lifecycle import folder as files
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.fork import Fork
from streamwarden.stream import Backend, StorageSpec, StreamSpec
from support.airflow_harness import free_port
from support.drivers import Project, project
from support.job_runs import publish, stream
from support.mid_batch import kill_in_mid_batch
from support.object_store import BUCKET, ObjectStore, running

pytestmark = pytest.mark.spark

START = datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
FILES, EVENTS = 8, 30
FAST_FAILURE = {"spark.hadoop.fs.s3a.attempts.maximum": "1", "spark.hadoop.fs.s3a.retry.limit": "1"}


def lines() -> list[list[str]]:
    def event(number: int, second: int) -> str:
        at = START + timedelta(minutes=5 * number, seconds=second)
        return json.dumps({"event_time": f"{at:%Y-%m-%dT%H:%M:%S}.000Z", "user_id": second % 4, "action": "view"})

    return [[event(number, 10 * second) for second in range(EVENTS)] for number in range(FILES)]


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
    """The run that was killed once, and its store."""

    home: Project
    store: ObjectStore
    spec: StreamSpec
    cut: int
    drivers: tuple[str, str]

    def report(self) -> CheckpointReport:
        fs, path = open_path(self.spec.checkpoint, "lake")
        return read_checkpoint(fs, path, output=self.spec.sink.path)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with (
        running() as store,
        project(tmp_path_factory.mktemp("object_store")) as home,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("AIRFLOW_CONN_LAKE", store.connection())
        spec = in_store(stream("event_windows", home.data, Backend.ROCKSDB), "windows")
        publish(home.input, lines())
        store.put(home.input, "input")
        cut = kill_in_mid_batch(home, spec, after=2)
        killed = home.store.drivers.latest(spec.name)
        assert killed is not None
        last = home.start(spec)
        assert home.await_end(last).kind is ExitKind.COMPLETED, home.log(last)
        yield Ran(home, store, spec, cut, (killed.driver_id, last))


def test_a_kill_in_mid_batch_changes_no_row(ran: Ran) -> None:
    killed = ran.home.store.drivers.get(ran.drivers[0])
    assert killed is not None
    assert killed.exit is not None
    assert (killed.exit.kind, killed.exit.cut_batch) == (ExitKind.KILLED, True)
    outcome = verify(ran.spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert (outcome.records, outcome.expected > 2) == (FILES * EVENTS, True)


def test_a_file_that_is_lost_is_noticed_by_both_readers(ran: Ran) -> None:
    data = next(key for key in ran.store.keys("windows/output/") if key.endswith(".parquet"))
    with ran.store.without(data):
        outcome = verify(ran.spec)
        assert not outcome.exactly_once
        assert f"names {data.rpartition('/')[2]}, which is not there" in " ".join(outcome.problems)
        assert [finding.consequence.value for finding in ran.report().findings] == ["loses"]
    entry = f"windows/output/{MANIFEST}/{ran.cut}"
    with ran.store.without(entry):
        assert f"the manifest has no entry for the committed batch {ran.cut}" in verify(ran.spec).problems
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
    seen = survey(ran.spec)
    assert seen.problems == ()
    assert seen.log is not None
    assert seen.log.gap == 0
    assert seen.waiting is not None
    assert seen.waiting.count == 0
    assert seen.state
    assert all(each.size for each in seen.state)


def test_every_file_is_written_once_and_whole(ran: Ran) -> None:
    """No log is published by a rename, which in such a store is a copy that can stop half way."""
    names = [key.rpartition("/")[2] for key in ran.store.keys("windows/")]
    assert not [name for name in names if name.endswith(".tmp") or name.startswith("_temporary")]


def test_no_secret_is_in_the_drivers_folders(ran: Ran) -> None:
    found = [path for path in (ran.home.data / "drivers").rglob("*") if path.is_file()]
    assert any(path.name == files.PROPERTIES and b"fs.s3a.endpoint" in path.read_bytes() for path in found)
    assert not [path for path in found if ran.store.secret.encode() in path.read_bytes()]


@dataclass
class Three:
    forked: Fork
    fork_ended: ExitRecord
    refused: ExitRecord
    alone: ExitRecord


@pytest.fixture(scope="module")
def three(ran: Ran, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    forked = fork(ran.spec, into=tmp_path_factory.mktemp("fork") / "f", rewind=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_WRONG", ran.store.connection(secret="of-somebody-else"))
        patch.setenv("AIRFLOW_CONN_NOBODY", ran.store.connection(endpoint=f"http://127.0.0.1:{free_port()}"))
        specs = [
            forked.spec,
            in_store(ran.spec, "refused", "wrong"),
            in_store(ran.spec, "alone", "nobody", **FAST_FAILURE),
        ]
        drivers = [ran.home.start(spec) for spec in specs]
        yield Three(forked, *map(ran.home.await_end, drivers))


def test_a_fork_is_local_and_ends_as_its_origin_did(ran: Ran, three: Three) -> None:
    spec = three.forked.spec
    assert three.fork_ended.kind is ExitKind.COMPLETED
    assert three.forked.unseen > 0
    assert not spec.in_object_store
    assert spec.connections == ()
    outcome = verify(spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.expected == verify(ran.spec).expected


def test_a_wrong_secret_is_said_and_not_tried_again(three: Three) -> None:
    assert three.refused.kind is ExitKind.FAILED
    assert not three.refused.curable
    assert "storage.connection" in three.refused.next_step
    assert "of-somebody-else" not in three.refused.message


def test_a_store_that_does_not_answer_is_waited_for(three: Three) -> None:
    assert three.alone.kind is ExitKind.FAILED
    assert three.alone.curable
    assert "does not answer" in three.alone.next_step
