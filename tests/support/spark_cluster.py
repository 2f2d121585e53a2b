"""A real standalone cluster of Spark for tests: a master and workers of the installed PySpark, on free ports of the
loopback, ended with the tests. Started with the arguments that docker-compose.yaml starts its own with."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
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
    """A running master and workers. `url` is what a stream names as `spark.master`; `pages` are the ports of the web
    pages, the master's first."""

    def __init__(
        self, folder: Path, workers: Sequence[subprocess.Popen[bytes]], url: str, pages: Sequence[int]
    ) -> None:
        self.url, self.pages = url, pages
        self._folder, self._workers = folder, workers

    def executors(self) -> list[psutil.Process]:
        """The executors that live now."""
        return [executor for worker in self._workers for executor in self._executors_of(worker)]

    def kill_a_busy_worker(self) -> bool:
        """SIGKILL to a worker and its executors at once, as if its host was lost; False if none has an executor."""
        for worker in self._workers:
            executors = self._executors_of(worker)
            if executors:
                worker.send_signal(signal.SIGKILL)
                for executor in executors:
                    executor.send_signal(signal.SIGKILL)
                worker.wait(timeout=20)
                return True
        return False

    def launched(self) -> int:
        """How many executors the workers have launched so far: each has a folder of its own."""
        return sum(1 for path in self._folder.glob("work-*/app-*/*") if path.is_dir())

    def _executors_of(self, worker: subprocess.Popen[bytes]) -> list[psutil.Process]:
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(worker.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):  # a zombie is one too
                    if _EXECUTOR in process.cmdline():
                        found.append(process)
        return found


@contextmanager
def cluster(*, cores: int = 2, workers: int = 1) -> Iterator[Cluster]:
    """A running cluster; everything of it is ended, and its folder removed, at the end."""
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-cluster-"))
    port, *pages = (free_port() for _ in range(2 + workers))
    url = f"spark://127.0.0.1:{port}"
    processes: list[subprocess.Popen[bytes]] = []
    try:
        master = _start(folder, "master", master_arguments(host="127.0.0.1", port=port, page=pages[0]))
        processes.append(master)
        _await_listening(master, port, folder / "master.log")
        for number, page in enumerate(pages[1:]):
            work = str(folder / f"work-{number}")
            offer = worker_arguments(host="127.0.0.1", cores=cores, memory="2g", page=page, work=work, url=url)
            processes.append(_start(folder, f"worker-{number}", offer))
        for number, worker in enumerate(processes[1:]):
            _await_said(worker, folder / f"worker-{number}.log", r"Successfully registered with master")
        yield Cluster(folder, processes[1:], url, pages)
    finally:
        for process in reversed(processes):
            _end(process)
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
