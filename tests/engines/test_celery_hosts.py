"""Airflow with CeleryExecutor: two workers, each as a host of its own, read the queue of a stream. One is drained, the
other one is powered off, and the stream goes on without a loss."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.adapters.processes import HOST_VARIABLE
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.lifecycle.hosts.fence import SETTLES
from streamwarden.lifecycle.hosts.report import host_name
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.services.fleet.exits.lease_grace import GRACE
from streamwarden.services.workspace import Workspace
from support.airflow.harness import AIRFLOW, CLOCKED, Airflow, running, wait_for
from support.airflow.project import make_project
from support.hosts.events import NAME, Events, declare, ids_in, listed
from support.servers import postgres_server

pytest.importorskip("airflow.providers.celery", reason="the extra celery is not installed")
pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]

HOSTS = ("one", "two")


class Site:
    """Airflow with two workers, and the stream."""

    def __init__(self, airflow: Airflow, events: Events) -> None:
        self.airflow, self.events = airflow, events
        self.space = Workspace.open(airflow.project, airflow.data, airflow.env["STREAMWARDEN_STORE_URL"])

    def streamwarden(self, *words: str) -> str:
        command = [sys.executable, "-m", "streamwarden.cli", *words]
        done = subprocess.run(command, env=self.airflow.env, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def driver(self) -> DriverRecord | None:
        """The newest one, once its query has started."""
        record = self.space.store.drivers.latest(NAME)
        return record if record is not None and record.run_id else None

    def next_driver(self, before: DriverRecord, within: float) -> DriverRecord:
        def newer() -> DriverRecord | None:
            found = self.driver()
            return found if found is not None and found.driver_id != before.driver_id else None

        record = wait_for("the next driver", newer, timeout=within, explain=self.explain)
        assert record is not None
        return record

    def goes_on(self) -> None:
        at = self.committed()
        wait_for("more batches", lambda: self.committed() >= at + 3, timeout=120, explain=self.explain)

    def committed(self) -> int:
        """The newest committed batch; -1: none."""
        found = log_position(open_path(self.airflow.data / "checkpoints" / NAME)).committed
        return -1 if found is None else found

    def delivered(self) -> Counter[str]:
        paths = listed(self.airflow.data / "output" / NAME)
        return ids_in(Path(path.removeprefix("file://")) for path in paths)

    def explain(self) -> str:
        logs = [*self.airflow.home.glob("worker-*.log"), self.airflow.home / "scheduler.log"]
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)


def host_of(record: DriverRecord) -> str:
    assert record.process is not None
    return host_name(record.process.host)


def power_off(site: Site, host: str) -> None:
    """SIGKILL to every process of the host. Celery's rename themselves, which hides their environment."""
    site.airflow.sweep(f"worker-{host}")
    end_drivers(host)


def end_drivers(host: str) -> None:
    while found := processes.with_variable(HOST_VARIABLE, host):
        for process in found:
            processes.signal_one(process, signal.SIGKILL)
        time.sleep(0.1)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("celery")
    airflow = Airflow(root / "airflow", make_project(root / "project"), root / "var")
    with postgres_server.running() as server:
        database = server.create("airflow")
        celery = {
            "CORE__EXECUTOR": "CeleryExecutor",
            "DATABASE__SQL_ALCHEMY_CONN": database,
            "DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
            "CELERY__BROKER_URL": f"sqla+{server.create('broker')}",
            "CELERY__RESULT_BACKEND": f"db+{server.create('results')}",
            "CELERY__WORKER_CONCURRENCY": "1",
        }
        airflow.env |= {f"AIRFLOW__{key}": value for key, value in celery.items()}
        airflow.env["STREAMWARDEN_STORE_URL"] = server.create("streamwarden")
        declare(airflow.project, queue="streams")
        events = Events(airflow.data / "input")
        for host in HOSTS:
            worker = [str(AIRFLOW), "celery", "worker", "--skip-serve-logs", "--without-mingle", "--without-gossip"]
            named = ["--celery-hostname", f"worker@{host}", "--queues", "streams,default", "--pid", str(root / host)]
            airflow.commands[f"worker-{host}"] = ["env", f"{HOST_VARIABLE}={host}", *worker, *named]
        try:
            with running(airflow, silent=CLOCKED):
                for host in HOSTS:
                    airflow.start(f"worker-{host}")
                yield Site(airflow, events)
        finally:
            for host in HOSTS:
                end_drivers(host)


def test_a_stream_moves_with_its_host(site: Site) -> None:
    wait_for("the DAG", lambda: f"stream_{NAME}" in site.airflow.dag_ids(), timeout=120, explain=site.explain)
    with site.events.flowing():
        site.airflow.pause(f"stream_{NAME}", False)
        first = wait_for("the first driver", site.driver, timeout=240, explain=site.explain)
        assert first is not None
        site.goes_on()

        site.streamwarden("hosts", "drain", host_of(first), "--reason", "an update")
        second = site.next_driver(first, within=240)
        assert {host_of(first), host_of(second)} == set(HOSTS)
        site.goes_on()
        site.streamwarden("hosts", "resume", host_of(first))

        power_off(site, host_of(second))
        off_at = time.time()
        third = site.next_driver(second, within=240)
        assert third.started_at is not None
        print(f"launched {third.launched_at - off_at:.1f} s after, query after {third.started_at - off_at:.1f} s")
        assert third.launched_at - off_at < LEASE_TTL + GRACE + SETTLES + 30
        assert host_of(third) == host_of(first)
        site.goes_on()
    ended = site.space.store.drivers.get(second.driver_id)
    assert ended is not None
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.KILLED
    wait_for("all input", lambda: set(site.delivered()) >= site.events.ids, timeout=120, poll=1)
    site.streamwarden("stop", NAME)
    found = site.delivered()
    assert (set(found), set(found.values())) == (site.events.ids, {1})
