"""A real standalone cluster of Spark for tests: a master and a worker of the installed PySpark, on free ports of the
loopback, ended with the tests. Started with the arguments that docker-compose.yaml starts its own with."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from streamwarden.adapters.java import find_java
from support.airflow_harness import free_port

STARTS_WITHIN = 90.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def master_arguments(*, host: str, port: int, page: int) -> list[str]:
    """Of spark-class. `page`: the port of the web page."""
    return [MASTER, "--host", host, "--port", str(port), "--webui-port", str(page)]


def worker_arguments(*, host: str, cores: int, memory: str, page: int, work: str, url: str) -> list[str]:
    """Of spark-class. `work`: folder of the executors' logs; `url`: the master's."""
    offers = ["--host", host, "--cores", str(cores), "--memory", memory]
    return [WORKER, *offers, "--webui-port", str(page), "--work-dir", work, url]


class Cluster:
    """A running master and its workers. `url` is what a stream names as `spark.master`; `pages` are the ports of the
    web pages, the master's first."""

    def __init__(self, folder: Path, port: int, page: int, cores: int) -> None:
        self.url = f"spark://127.0.0.1:{port}"
        self.pages = [page]
        self._folder, self._work, self._cores = folder, folder / "work", cores
        self._workers: list[subprocess.Popen[bytes]] = []

    @property
    def _worker(self) -> subprocess.Popen[bytes]:
        return self._workers[-1]

    def add_worker(self) -> None:
        """Start one, and wait until the master knows it."""
        name, page, work = f"worker-{len(self._workers)}", free_port(), str(self._work)
        offer = worker_arguments(host="127.0.0.1", cores=self._cores, memory="2g", page=page, work=work, url=self.url)
        self._workers.append(_start(self._folder, name, offer))
        self.pages.append(page)
        _await_said(self._worker, self._folder / f"{name}.log", r"Successfully registered with master")

    def lose_worker(self) -> None:
        """SIGKILL to the worker and to its executors, as if its machine were gone."""
        lost = self.executors()
        for process in (self._worker, *lost):
            process.kill()
        self._worker.wait(timeout=20)

    def end(self) -> None:
        """What runs of it."""
        for worker in self._workers:
            if worker.poll() is None:
                _end(worker)

    def executors(self) -> list[psutil.Process]:
        """The executors that live now."""
        found = []
        for process in psutil.Process(self._worker.pid).children(recursive=True):
            try:
                if _EXECUTOR in process.cmdline():
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        return found

    def launched(self) -> int:
        """How many executors the worker has launched so far: each has a folder of its own."""
        return sum(1 for path in self._work.glob("app-*/*") if path.is_dir())


@contextmanager
def cluster(*, cores: int = 2) -> Iterator[Cluster]:
    """A running cluster with one worker; everything of it is ended, and its folder removed, at the end."""
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-cluster-"))
    port, page = free_port(), free_port()
    made = Cluster(folder, port, page, cores)
    master = None
    try:
        master = _start(folder, "master", master_arguments(host="127.0.0.1", port=port, page=page))
        _await_listening(master, port, folder / "master.log")
        made.add_worker()
        yield made
    finally:
        made.end()
        if master is not None:
            _end(master)
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, name: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    programs = Path(sys.executable).parent  # with these alone, as in a container or on a host of the cluster
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))},
        "JAVA_HOME": str(find_java()),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    command = [str(programs / "spark-class"), *arguments]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)


def _await_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        _require(process, deadline, log)
        time.sleep(0.1)


def _await_said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while not re.search(pattern, log.read_text(errors="replace")):
        _require(process, deadline, log)
        time.sleep(0.1)


def _require(process: subprocess.Popen[bytes], deadline: float, log: Path) -> None:
    told = log.read_text(errors="replace")[-2000:]
    assert process.poll() is None, f"it ended: {told}"
    assert time.monotonic() < deadline, f"it does not start: {told}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """And the executors that it started."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        children = []
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)
    for child in children:
        try:
            os.kill(child.pid, 9) if child.is_running() else None
        except ProcessLookupError:
            continue
