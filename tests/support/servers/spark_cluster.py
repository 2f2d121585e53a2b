"""A real standalone cluster of Spark for tests: a master and workers of the installed PySpark, on free ports of the
loopback, ended with the tests. Started with the arguments that docker-compose.yaml starts its own with."""

from __future__ import annotations

import contextlib
import html
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from streamwarden.adapters.jvm.java import find_java
from support.airflow.harness import free_port
from support.spark.drivers import quick_options

STARTS_WITHIN = 90.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
DRIVER = "driver.cluster"
"""A name that the workers know, and the driver's own host does not, as a container's published name."""

CALLED = {"spark.driver.host": DRIVER, "spark.driver.bindAddress": "127.0.0.1"}
"""For `spark.conf`: executors reach the driver by its name for them. Whoever starts another program with these settings
finds nothing at that name."""

_NAMES = "hosts"
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

    def __init__(self, folder: Path, port: int, pages: Sequence[int]) -> None:
        self.url, self.pages = f"spark://127.0.0.1:{port}", pages
        self._folder, self._port = folder, port
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []

    def start_master(self) -> None:
        """Start the master, again after `kill_master`: at the same address, and with no memory of what it knew."""
        arguments = master_arguments(host="127.0.0.1", port=self._port, page=self.pages[0])
        self._master = _start(self._folder, "master", arguments)
        _await_listening(self._master, self._port, self._folder / "master.log")

    def kill_master(self) -> None:
        """SIGKILL to the master alone: workers and executors live on."""
        assert self._master is not None
        self._master.kill()
        self._master.wait(timeout=20)

    def kill_applications(self) -> list[str]:
        """Kill every application by its button on the master's page; returns their ids."""
        page = f"http://127.0.0.1:{self.pages[0]}/"
        directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with directly.open(page, timeout=20) as answer:
            buttons = re.findall(r'<form[^>]*action="app/kill/".*?</form>', answer.read().decode(), re.DOTALL)
        forms = [dict(_hidden(button)) for button in buttons]
        for form in forms:
            directly.open(f"{page}app/kill/", urllib.parse.urlencode(form).encode(), timeout=20).close()
        return [form["id"] for form in forms]

    def start_workers(self, cores: int) -> None:
        """Start a worker for each of the pages that is left, and wait until the master knows them."""
        for number, page in enumerate(self.pages[1:]):
            work = str(self._folder / f"work-{number}")
            offer = worker_arguments(host="127.0.0.1", cores=cores, memory="2g", page=page, work=work, url=self.url)
            self._workers.append(_start(self._folder, f"worker-{number}", offer))
        for number, worker in enumerate(self._workers):
            _await_said(worker, self._folder / f"worker-{number}.log", r"Successfully registered with master")

    def end(self) -> None:
        """End all of it."""
        again = self._started_by_commands()
        for process in (*again, *reversed(self._workers), *([self._master] if self._master else [])):
            _end(process)

    def master_commands(self) -> tuple[list[str], list[str]]:
        """With which anybody kills the master (SIGKILL) and starts it again; the second may be repeated."""
        return self._commands(["master"])

    def worker_commands(self) -> tuple[list[str], list[str]]:
        """The same of all workers. Their executors end by themselves when their worker is gone."""
        return self._commands([f"worker-{number}" for number in range(len(self._workers))])

    def _commands(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        down = "; ".join(f"kill -9 $(cat {name}.pid) && rm {name}.pid" for name in names)
        up = "\n".join(f"[ -e {name}.pid ] || sh {name}.sh >>{name}.log 2>&1 &" for name in names)
        return ["sh", "-c", f"cd {self._folder}; {down}"], ["sh", "-c", f"cd {self._folder}\n{up}"]

    def _started_by_commands(self) -> list[psutil.Process]:
        """The masters and workers that this process did not start."""
        mine = {process.pid for process in (self._master, *self._workers) if process}
        pids = {int(file.read_text()) for file in self._folder.glob("*.pid")} - mine
        found = []
        for pid in pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if str(self._port) in " ".join(process.cmdline()):
                    found.append(process)
        return found

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
def cluster(*, cores: int = 2, workers: int = 1, started: bool = True) -> Iterator[Cluster]:
    """A cluster; everything of it is ended, and its folder removed, at the end.

    Args:
        started: False: it has an address, and nothing runs there yet.
    """
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-cluster-"))
    port, *pages = (free_port() for _ in range(2 + workers))
    made = Cluster(folder, port, pages)
    (folder / _NAMES).write_text(f"127.0.0.1 localhost {socket.gethostname()} {DRIVER}\n")
    try:
        if started:
            made.start_master()
            made.start_workers(cores)
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


def _hidden(form: str) -> Iterator[tuple[str, str]]:
    """Names and values of a form's hidden fields."""
    for tag in re.findall(r"<input[^>]*>", form):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        yield attributes["name"], html.unescape(attributes["value"])


def _start(folder: Path, name: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    script = _script(folder, name, arguments)
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(["sh", script], stdout=log, stderr=log, cwd=folder)


def _script(folder: Path, name: str, arguments: list[str]) -> str:
    """A script that writes its pid to a file and becomes a master or a worker."""
    programs = Path(sys.executable).parent  # with these alone, as in a container or on a host of the cluster
    environment = {
        "JAVA_HOME": str(find_java()),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        # A worker's executors inherit it. Java looks names up in this file alone.
        "JDK_JAVA_OPTIONS": f"{quick_options()} -Djdk.net.hosts.file={folder / _NAMES}",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    lines = [
        *(f"unset {key}" for key in os.environ if key.startswith(("SPARK_", "PYSPARK_"))),
        *(f"export {key}={shlex.quote(value)}" for key, value in environment.items()),
        f"echo $$ >{name}.pid",
        f"exec {shlex.join([str(programs / 'spark-class'), *arguments])}",
    ]
    (folder / f"{name}.sh").write_text("\n".join(lines) + "\n")
    return f"{name}.sh"


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


def _end(process: subprocess.Popen[bytes] | psutil.Process) -> None:
    """And the executors that it started."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        children = []
    process.terminate()
    try:
        process.wait(timeout=20)
    except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
        process.kill()
        process.wait(timeout=10)
    for child in children:
        try:
            os.kill(child.pid, 9) if child.is_running() else None
        except ProcessLookupError:
            continue
