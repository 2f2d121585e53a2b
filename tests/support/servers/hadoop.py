"""A real node of HDFS and one of YARN for tests: two JVMs each, on free ports of the loopback, ended with the tests.

Each has a folder `conf` for HADOOP_CONF_DIR. YARN's own storage is this machine's disk, so it runs without HDFS;
`Yarn.configure` writes the settings of clients that keep their files in HDFS.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from xml.sax.saxutils import escape

import httpx
import psutil

from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.jvm.spark_home import spark_home
from support.airflow.harness import free_port, wait_for
from support.servers.kdc import REALM, Kdc

STARTS_WITHIN: Final = 180.0
LOOPBACK: Final = "127.0.0.1"
LOCAL_FILES: Final = "file:///"

NAME_NODE: Final = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE: Final = "org.apache.hadoop.hdfs.server.datanode.DataNode"
RESOURCE_MANAGER: Final = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NODE_MANAGER: Final = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"

OPENED: Final = ("--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.net=ALL-UNNAMED")
SMALL: Final = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

LOGGING: Final = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n
"""

DEFAULT_QUEUE, NARROW_QUEUE = "default", "narrow"
"""An application in the narrow queue waits for ever: it may have 3 % of the node, less than one container needs."""

CAPACITY: Final = {
    "yarn.scheduler.capacity.root.queues": f"{DEFAULT_QUEUE},{NARROW_QUEUE}",
    "yarn.scheduler.capacity.root.default.capacity": "97",
    "yarn.scheduler.capacity.root.default.maximum-capacity": "100",
    "yarn.scheduler.capacity.root.narrow.capacity": "3",
    "yarn.scheduler.capacity.root.narrow.maximum-capacity": "3",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.scheduler.capacity.root.default.maximum-am-resource-percent": "1.0",
}


class Daemons:
    """JVMs of Hadoop that share a folder: `conf`, and for each a log that failures show the end of.

    Args:
        options: more options of each JVM.
    """

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self.folder, self.conf = folder, folder / "conf"
        self._options = options
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for page in ("hdfs", "datanode", "cluster", "node"):  # the servers want the folders of their web pages
            (self.conf / "webapps" / page).mkdir(parents=True)
        (self.conf / "log4j.properties").write_text(LOGGING)

    def write(self, file: str, settings: Mapping[str, str]) -> None:
        """Write `conf/FILE`."""
        write_settings(self.conf / file, settings)

    def start(self, main: str) -> None:
        """Start the JVM with this main class; again after `kill`, with what it had on disk."""
        with self.log(main).open("ab") as log:
            self._running[main] = subprocess.Popen(
                self._command(main), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder, env=self._env()
            )

    def kill(self, main: str) -> None:
        """SIGKILL, and wait until it is gone."""
        process = self._running.pop(main)
        process.kill()
        process.wait(timeout=20)

    def pid(self, main: str) -> int:
        return self._running[main].pid

    def run(self, main: str, *arguments: str) -> str:
        """What a command of Hadoop, by its main class, prints; it has to succeed."""
        command = [*self._command(main), *arguments]
        done = subprocess.run(command, env=self._env(), cwd=self.folder, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, f"{main} {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
        return done.stdout

    def log(self, main: str) -> Path:
        return self.folder / f"{main.rpartition('.')[2]}.log"

    def await_(self, what: str, condition: Callable[[], object]) -> None:
        """Wait for a condition that needs all the JVMs; the first one that ended is named with its log."""

        def met() -> object:
            for main, process in self._running.items():
                assert process.poll() is None, f"{main} ended with {process.returncode}\n{self._told(main)}"
            with contextlib.suppress(httpx.HTTPError, LookupError, ValueError):
                return condition()
            return False

        wait_for(what, met, timeout=STARTS_WITHIN, explain=self.told)

    def told(self) -> str:
        """The end of each log."""
        return "\n".join(self._told(main) for main in self._running)

    def end(self) -> None:
        """End the JVMs, last first, and whatever they started."""
        for process in reversed(self._running.values()):
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=10)
        for left in self._left():
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()

    def _left(self) -> list[psutil.Process]:
        """Processes that name this folder: containers whose NodeManager was killed."""
        mine = os.getpid()
        with_it = (p for p in psutil.process_iter(["cmdline"]) if str(self.folder) in " ".join(p.info["cmdline"] or ()))
        return [process for process in with_it if process.pid != mine]

    def _told(self, main: str) -> str:
        log = self.log(main)
        return f"== {log}\n{log.read_text(errors='replace')[-3000:] if log.exists() else 'no log'}"

    def _command(self, main: str) -> list[str]:
        (some, *_) = maven.resolve(Path(__file__).with_name("hadoop.xml"))
        options = [
            *OPENED,
            *SMALL,
            *self._options,
            "-Djava.net.preferIPv4Stack=true",
            f"-Djava.io.tmpdir={self._scratch()}",
        ]
        return [str(find_java() / "bin" / "java"), *options, "-cp", f"{self.conf}:{some.parent}/*", main]

    def _scratch(self) -> Path:
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        return scratch

    def _env(self) -> dict[str, str]:
        """Nothing of the user's own Hadoop or Spark."""
        foreign = ("HADOOP_", "YARN_", "SPARK_")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        return inherited | {"JAVA_HOME": str(find_java()), "HADOOP_CONF_DIR": str(self.conf)}


class Hdfs(Daemons):
    """A NameNode and a DataNode. `url` is what `fs.defaultFS` names, `web` where WebHDFS answers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        rpc, self.web_port, *data_node = (free_port() for _ in range(5))
        self.url, self.web = f"hdfs://{LOOPBACK}:{rpc}", f"http://{LOOPBACK}:{self.web_port}"
        self.write("core-site.xml", {"fs.defaultFS": self.url})
        self.write("hdfs-site.xml", self._settings(rpc, data_node))

    def _settings(self, rpc: int, data_node: Sequence[int]) -> dict[str, str]:
        transfer, web, ipc = data_node
        return {
            "dfs.replication": "1",
            "dfs.namenode.name.dir": f"file://{self.folder}/names",
            "dfs.datanode.data.dir": f"file://{self.folder}/data",
            "dfs.namenode.rpc-address": f"{LOOPBACK}:{rpc}",
            "dfs.namenode.http-address": f"{LOOPBACK}:{self.web_port}",
            "dfs.datanode.address": f"{LOOPBACK}:{transfer}",
            "dfs.datanode.http.address": f"{LOOPBACK}:{web}",
            "dfs.datanode.ipc.address": f"{LOOPBACK}:{ipc}",
            "dfs.datanode.hostname": LOOPBACK,
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.safemode.extension": "0",
        }

    def open(self) -> None:
        """Format it, start both, and wait until a file can be written."""
        self.run(NAME_NODE, "-format", "-nonInteractive")
        self.start(NAME_NODE)
        self.start(DATA_NODE)
        self.await_open()

    def await_open(self) -> None:
        """Wait until the DataNode has reported and the NameNode takes writes."""
        self.await_("HDFS", lambda: self._is_open())

    def _is_open(self) -> bool:
        in_safe_mode: str = self._bean("NameNodeInfo")["Safemode"]
        data_nodes: int = self._bean("FSNamesystemState")["NumLiveDataNodes"]
        return not in_safe_mode and data_nodes == 1

    def _bean(self, name: str) -> dict[str, Any]:
        answer = httpx.get(f"{self.web}/jmx", params={"qry": f"Hadoop:service=NameNode,name={name}"}, timeout=5)
        bean: dict[str, Any] = answer.json()["beans"][0]
        return bean

    def shell(self, *arguments: str) -> str:
        """What `hdfs dfs ARGUMENTS` prints."""
        return self.run("org.apache.hadoop.fs.FsShell", *arguments)


class Yarn(Daemons):
    """A ResourceManager, which keeps its state on disk, and a NodeManager. `web` is where the REST API answers.

    Args:
        guard: the Kerberos server at which its callers log in; None: it trusts everybody.
    """

    def __init__(self, folder: Path, *, memory_mb: int = 8192, vcores: int = 8, guard: Kdc | None = None) -> None:
        super().__init__(folder, () if guard is None else (guard.java_option,))
        ports = [free_port() for _ in range(8)]
        self.web = f"http://{LOOPBACK}:{ports[0]}"
        self.node_web = f"http://{LOOPBACK}:{ports[1]}"
        self.settings = self._settings(ports, memory_mb, vcores)
        if guard is not None:
            self.settings |= guarded_yarn(guard)
        self.write("core-site.xml", {"fs.defaultFS": LOCAL_FILES} | ({} if guard is None else self._guarded()))
        self.write("yarn-site.xml", self.settings)
        self.write("capacity-scheduler.xml", CAPACITY)

    def _guarded(self) -> dict[str, str]:
        secret = self.folder / "http-secret"
        secret.write_text("of-a-test")
        return GUARDED | {"hadoop.http.authentication.signature.secret.file": str(secret)}

    def _settings(self, ports: Sequence[int], memory_mb: int, vcores: int) -> dict[str, str]:
        web, node_web, manager, scheduler, tracker, admin, node, localizer = (f"{LOOPBACK}:{port}" for port in ports)
        return {
            "yarn.resourcemanager.hostname": LOOPBACK,
            "yarn.resourcemanager.webapp.address": web,
            "yarn.resourcemanager.address": manager,
            "yarn.resourcemanager.scheduler.address": scheduler,
            "yarn.resourcemanager.resource-tracker.address": tracker,
            "yarn.resourcemanager.admin.address": admin,
            "yarn.resourcemanager.recovery.enabled": "true",
            "yarn.resourcemanager.store.class": "org.apache.hadoop.yarn.server.resourcemanager.recovery."
            "FileSystemRMStateStore",
            "yarn.resourcemanager.fs.state-store.uri": f"file://{self.folder}/state",
            "yarn.nodemanager.hostname": LOOPBACK,
            "yarn.nodemanager.address": node,
            "yarn.nodemanager.webapp.address": node_web,
            "yarn.nodemanager.localizer.address": localizer,
            "yarn.nodemanager.local-dirs": str(self.folder / "local"),
            "yarn.nodemanager.log-dirs": str(self.folder / "logs"),
            "yarn.nodemanager.remote-app-log-dir": f"file://{self.folder}/aggregated",
            "yarn.nodemanager.resource.memory-mb": str(memory_mb),
            "yarn.nodemanager.resource.cpu-vcores": str(vcores),
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
            "yarn.log-aggregation-enable": "true",
            "yarn.log.server.url": "",
            "yarn.scheduler.minimum-allocation-mb": "256",
        }

    def open(self) -> None:
        """Start both, and wait until the node offers its memory."""
        (self.folder / "aggregated").mkdir(mode=0o1777)
        self.start(RESOURCE_MANAGER)
        self.start(NODE_MANAGER)
        self.await_open()

    def await_open(self) -> None:
        """Wait until the ResourceManager answers and the node offers its memory, a moment after it is known."""
        self.await_("YARN", lambda: self.rest("cluster/metrics")["clusterMetrics"]["totalMB"] > 0)

    def rest(self, path: str, **parameters: str) -> dict[str, Any]:
        """An answer of the ResourceManager's REST API."""
        answer = httpx.get(f"{self.web}/ws/v1/{path}", params=parameters, timeout=10)
        answer.raise_for_status()
        decoded: dict[str, Any] = answer.json()
        return decoded

    def applications(self, **parameters: str) -> list[dict[str, Any]]:
        """The applications that the ResourceManager knows, oldest first."""
        found = (self.rest("cluster/apps", **parameters)["apps"] or {}).get("app", [])
        return sorted(found, key=lambda application: application["startedTime"])

    def application(self, identifier: str) -> dict[str, Any]:
        found: dict[str, Any] = self.rest(f"cluster/apps/{identifier}")["app"]
        return found

    def kill_application(self, identifier: str) -> None:
        """As `yarn application -kill` does, and wait until it has ended."""
        url = f"{self.web}/ws/v1/cluster/apps/{identifier}/state"
        httpx.put(url, json={"state": "KILLED"}, params={"user.name": "root"}, timeout=10).raise_for_status()
        wait_for(f"{identifier} ends", lambda: self.application(identifier)["state"] == "KILLED", timeout=60)

    def containers(self, identifier: str) -> list[psutil.Process]:
        """The JVMs of the application that run now, its application master first."""
        found = []
        for process in psutil.process_iter(["cmdline", "name"]):
            words = process.info["cmdline"] or []
            if process.info["name"] == "java" and identifier in " ".join(words) and str(self.folder) in " ".join(words):
                found.append(process)
        return sorted(found, key=psutil.Process.create_time)

    def command(self) -> Path:
        """A folder for the PATH with Hadoop's command `yarn`, as far as `yarn logs` goes: its launcher is in no jar."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        script = folder / "yarn"
        client = shlex.join(self._command("org.apache.hadoop.yarn.client.cli.LogsCLI"))
        script.write_text(f'#!/bin/sh\n[ "$1" = logs ] || exit 2\nshift\nexec {client} "$@"\n')
        script.chmod(0o755)
        return folder

    def configure(self, folder: Path, hdfs: Hdfs) -> Path:
        """Make `folder` the HADOOP_CONF_DIR of clients whose `fs.defaultFS` is that HDFS; returns it."""
        shutil.copytree(hdfs.conf, folder)
        write_settings(folder / "yarn-site.xml", self.settings)
        return folder

    def spark_conf(self, python: str) -> dict[str, str]:
        """Spark's settings of an application here: PySpark's own jars, and loopback in each container."""
        return {
            "spark.yarn.jars": f"local:{spark_home()}/jars/*",
            "spark.pyspark.python": python,
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": LOOPBACK,
            "spark.executorEnv.SPARK_LOCAL_IP": LOOPBACK,
        }


GUARDED: Final = {"hadoop.security.authentication": "kerberos", "hadoop.security.authorization": "true"}


def guarded_yarn(guard: Kdc) -> dict[str, str]:
    """The settings of YARN's servers that log in at `guard`."""
    keys = str(guard.keytab("yarn/localhost"))
    servers = ("yarn.resourcemanager", "yarn.nodemanager")
    named = {f"{server}.principal": f"yarn/localhost@{REALM}" for server in servers}
    return named | {f"{server}.keytab": keys for server in servers}


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Write a file in Hadoop's format."""
    pairs = ((f"<name>{name}</name>", f"<value>{escape(value)}</value>") for name, value in settings.items())
    lines = (f"<property>{name}{value}</property>" for name, value in pairs)
    file.write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))


@contextmanager
def hdfs() -> Iterator[Hdfs]:
    """A running HDFS; it is ended, and its data removed, at the end."""
    with _folder() as folder, _opened(Hdfs(folder)) as made:
        yield made


@contextmanager
def yarn(*, memory_mb: int = 8192, vcores: int = 8, guard: Kdc | None = None) -> Iterator[Yarn]:
    """A running YARN; it is ended with all its containers, and its folder removed, at the end."""
    with _folder() as folder, _opened(Yarn(folder, memory_mb=memory_mb, vcores=vcores, guard=guard)) as made:
        yield made


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-hadoop-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


D = TypeVar("D", Hdfs, Yarn)


@contextmanager
def _opened(daemons: D) -> Iterator[D]:
    try:
        daemons.open()
        yield daemons
    finally:
        daemons.end()
