"""The commands of an outage, really run; and services that are not there, really asked."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.connections import variable
from streamwarden.adapters.store import Store
from streamwarden.drills.faults.service_outage import OutageService
from streamwarden.drills.records.types import ForkView
from streamwarden.redaction import REDACTED
from streamwarden.services.drilling.ports.outages import ForkServices
from streamwarden.services.monitoring.reachability import ask_broker
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import SinkSpec, StreamSpec


def test_a_command_runs_in_the_projects_folder_and_its_words_are_kept(tmp_path: Path) -> None:
    done = ForkServices(tmp_path).run(["sh", "-c", "pwd; echo not there >&2; exit 3"], within=10)
    assert done.status == 3
    assert done.output.split("\n")[:2] == [str(tmp_path), "not there"]


def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    done = ForkServices(tmp_path).run(["sh", "-c", "sleep 30 & echo $! >pid"], within=10)
    assert done.status == 0
    assert time.monotonic() - began < 5
    assert ForkServices(tmp_path).run(["sh", "-c", "kill $(cat pid)"], within=10).status == 0, "it lives on"


def test_a_command_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    done = ForkServices(tmp_path).run(["sh", "-c", "sleep 61 & echo $! >pid; wait"], within=0.5)
    assert done.status is None
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while "sleep\x0061" in _command(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_the_end_of_much_output_is_kept_without_secrets_and_the_rest_costs_nothing(tmp_path: Path) -> None:
    """300 MB of output: neither this process nor the disk takes as much."""
    script = "yes flight | head -c 300000000; echo the broker refuses --password hunter2-hunter2; exit 1"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = ForkServices(tmp_path).run(["sh", "-c", script], within=60)
    assert done.status == 1
    assert done.output.endswith(f"the broker refuses --password {REDACTED}\n")
    assert len(done.output) <= 2_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "kB"


def test_the_beginning_of_much_output_is_dropped_while_the_command_runs(tmp_path: Path) -> None:
    """The file of the output is on a disk that other programs need."""
    script = "readlink /proc/$$/fd/1 >name; yes | head -c 50000000; sleep 0.5; stat -L -c %s /proc/$$/fd/1; echo end"
    done = ForkServices(tmp_path).run(["sh", "-c", script], within=60)
    size, end = done.output.split()[-2:]
    assert end == "end"
    assert int(size) < 10_000_000


def test_a_program_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    done = ForkServices(tmp_path).run(["no-such-program"], within=10)
    assert done.status == 127
    assert "no-such-program" in done.output


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never answers: a server that was stopped, or hangs."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


TABLE = PostgresqlSink(connection="warehouse", table="t", key=("k",))
TOPIC = KafkaSink(connection="events", topic="t", key=("k",))


@pytest.mark.parametrize(
    ("service", "sink"), [(OutageService.SOURCE, TABLE), (OutageService.SINK, TABLE), (OutageService.SINK, TOPIC)]
)
def test_a_port_that_is_open_and_silent_is_no_answer(
    silent: int, service: OutageService, sink: SinkSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        variable("events"),
        json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": f"127.0.0.1:{silent}"}}),
    )
    monkeypatch.setenv(variable("warehouse"), f"postgresql://ann:secret-word@127.0.0.1:{silent}/flights")
    status = ForkServices(tmp_path, answers_within=1).probe(_fork(sink), service)
    assert not status.answers
    assert f"127.0.0.1:{silent}" in status.name
    assert status.detail
    assert "secret-word" not in f"{status}"


def test_a_broker_that_refuses_connections_is_known_to_be_down_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wait for a service to stop, and each outage, would otherwise last as long as one answer may take."""
    with socket.socket() as bound:  # nothing listens there
        bound.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{bound.getsockname()[1]}"
        monkeypatch.setenv(
            variable("events"), json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": servers}})
        )
        began = time.monotonic()
        status = ForkServices(tmp_path, answers_within=60).probe(_fork(TOPIC), OutageService.SOURCE)
        reached = ask_broker("events", 60)
        assert time.monotonic() - began < 30
    assert (status.answers, status.detail) == (False, f"{servers}: Connection refused")
    assert (reached.reached, reached.problem) == (False, status.detail)


def _fork(sink: SinkSpec) -> ForkView:
    spec = StreamSpec(
        name="flights",
        job="job.py",
        source=KafkaSource(connection="events", topic="flights"),
        sink=sink,
        checkpoint="/nowhere",
    )
    return ForkView(
        stream="flights",
        origin="flights",
        checkpoint="/nowhere",
        output=None,
        batch=None,
        unseen=0,
        batches_left=None,
        input_digest="",
        spec=spec,
    )


def fork_on(master: str, checkpoint: Path) -> ForkView:
    spec = StreamSpec(name="flights", job="job.py", checkpoint=str(checkpoint), spark=SparkSpec(master=master))
    return ForkView(
        stream="flights__fork",
        origin="flights",
        checkpoint=str(checkpoint),
        output=None,
        batch=None,
        unseen=0,
        batches_left=None,
        input_digest="d" * 64,
        spec=spec,
    )


def test_a_master_answers_if_one_of_its_addresses_takes_a_connection(tmp_path: Path) -> None:
    services = ForkServices(tmp_path, answers_within=1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        there = services.probe(fork_on(f"spark://127.0.0.1:1,127.0.0.1:{port}", tmp_path), OutageService.MASTER)
        assert there.answers, there.detail
    gone = services.probe(fork_on(f"spark://127.0.0.1:{port}", tmp_path), OutageService.MASTER)
    assert not gone.answers
    assert f"127.0.0.1:{port}" in gone.detail


def test_a_worker_is_a_process_that_names_the_master(tmp_path: Path) -> None:
    services, master = ForkServices(tmp_path), "spark://127.0.0.1:54321"
    assert not services.probe(fork_on(master, tmp_path), OutageService.WORKER).answers
    command = ["sleep.py", "org.apache.spark.deploy.worker.Worker", master]
    script = "import time; print('up', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script, *command[1:]], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        assert services.probe(fork_on(master, tmp_path), OutageService.WORKER).answers
        assert not services.probe(fork_on("spark://127.0.0.1:9", tmp_path), OutageService.WORKER).answers
        worker.kill()


def test_a_store_answers_if_it_takes_a_write(tmp_path: Path) -> None:
    """In WAL mode a locked store can still be read: that is no answer."""
    path = tmp_path / "store.db"
    with Store(f"sqlite:///{path}", busy_timeout=0.2) as store:
        store.migrate()
        services = ForkServices(tmp_path, store)
        fork = fork_on("local[1]", tmp_path)
        assert services.probe(fork, OutageService.STORE).answers
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert not services.probe(fork, OutageService.STORE).answers
        assert services.probe(fork, OutageService.STORE).answers


def test_a_disk_answers_if_it_takes_a_file(tmp_path: Path) -> None:
    services = ForkServices(tmp_path)
    assert services.probe(fork_on("local[1]", tmp_path / "checkpoint"), OutageService.DISK).answers
    full = services.probe(fork_on("local[1]", Path("/proc/checkpoint")), OutageService.DISK)
    assert not full.answers
