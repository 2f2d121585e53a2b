"""What is made of Spark's answers about executors: the recorded one of a real cluster, and answers that go wrong."""

from __future__ import annotations

import http.server
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamwarden.errors import ProcessError
from streamwarden.health.signals.executors import BYTES, LIMIT, LOST, UNREAD, latest_snapshot
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.events import UI_SERVED
from streamwarden.spark.executors.memory import Memory, memory_of
from streamwarden.spark.executors.metrics import (
    SparkExecutor,
    addresses,
    executor_limit,
    parse_executors,
    read_executors,
)
from streamwarden.spark.executors.watch import EXECUTOR_LOST, ExecutorWatch, measurements
from streamwarden.spark.internals.executor_memory import HEAP, JVM, OFF_HEAP, PARTS, PYTHON

RECORDED = json.loads((Path(__file__).parents[2] / "data" / "executors" / "spark-4.3.0.json").read_text())
"""Of a standalone cluster: the driver, an executor that was killed, and the one that took its place."""

MIB = 2**20


def test_the_answer_of_a_real_cluster_is_read() -> None:
    """The driver is no executor; the killed one is lost, for the reason that Spark gives; the other is measured."""
    lost, living = sorted(parse_executors(RECORDED), key=lambda each: each.active)
    assert (lost.active, lost.lost) == (False, True)
    assert "137" in lost.reason
    assert (living.active, living.lost, living.reason, living.cores) == (True, False, "", 1)
    assert "driver" in {each["id"] for each in RECORDED}


def test_without_process_tree_metrics_the_jvms_own_count() -> None:
    parts = {JVM: 0, PYTHON: 0, HEAP: 300, OFF_HEAP: 100}
    assert memory_of(parts) == Memory(400, resident=False)
    assert memory_of(parts | {JVM: 804, PYTHON: 40}) == Memory(844, resident=True)


def test_a_child_between_clone_and_exec_is_no_second_jvm() -> None:
    """Spark counts it as another process, with all the pages of the JVM: of 1.438 GB that it reported of an executor,
    634 MB never existed."""
    assert "ProcessTreeOtherRSSMemory" not in PARTS


def test_executor_without_reports_has_no_memory() -> None:
    found = parse_executors([{"id": name, "isActive": True} for name in ("0", "1")])
    kept = list(measurements(found, {"1": Memory(5, resident=True)}, stream="a", limit=9, at=1.0))
    assert {(each.name, each.source[:10]) for each in kept if each.name in (BYTES, LIMIT)} == {
        (BYTES, "executor 1"),
        (LIMIT, "executor 1"),
    }


@pytest.mark.parametrize(
    ("reason", "lost"),
    [
        ("Command exited with code 137", True),
        ("worker lost: Not receiving heartbeat for 60 seconds", True),
        ("", True),
        ("Executor killed by driver.", False),
        ("Executor decommission: spark scale down", False),
        ("Container exited from explicit termination request.", False),
    ],
)
def test_an_executor_that_spark_gave_back_itself_is_not_lost(reason: str, lost: bool) -> None:
    assert SparkExecutor(id="0", host="h", active=False, reason=reason).lost is lost


@pytest.mark.parametrize("answer", [{}, None, [{}], [{"id": "0"}], ["driver"]])
def test_an_answer_of_another_shape_is_refused(answer: object) -> None:
    with pytest.raises(ValueError, match="executor"):
        parse_executors(answer)


@pytest.mark.parametrize(
    ("conf", "mib"),
    [
        ({}, 1024 + 384),
        ({"spark.executor.memory": "600m"}, 600 + 384),
        ({"spark.executor.memory": "600"}, 600 + 384),
        ({"spark.executor.memory": "8g", "spark.executor.memoryOverhead": "512"}, 8192 + 512),
        ({"spark.executor.memory": "10g", "spark.executor.memoryOverheadFactor": "0.2"}, 10240 + 2048),
        ({"spark.executor.memory": "10g", "spark.kubernetes.memoryOverheadFactor": "0.4"}, 10240 + 4096),
        ({"spark.executor.memory": "10g", "spark.executor.minMemoryOverhead": "2g"}, 10240 + 2048),
        ({"spark.executor.pyspark.memory": "1g"}, 1024 + 384 + 1024),
        ({"spark.memory.offHeap.size": "1g"}, 1024 + 384),
        ({"spark.memory.offHeap.size": "1g", "spark.memory.offHeap.enabled": "true"}, 1024 + 384 + 1024),
    ],
)
def test_limit_is_the_memory_of_the_container(conf: dict[str, str], mib: int) -> None:
    assert executor_limit(conf) == mib * MIB


def test_the_loopback_is_asked_before_the_name() -> None:
    assert addresses("http://host.example:4040") == ("http://127.0.0.1:4040", "http://host.example:4040")
    assert addresses("https://host.example:4440") == ("https://host.example:4440",), "a certificate has a name"


@contextmanager
def web_ui(answer: Callable[[str], tuple[int, str]]) -> Iterator[str]:
    """An HTTP server that answers a path with a status and a text."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = answer(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    asked = []

    def answer(path: str) -> tuple[int, str]:
        asked.append(path)
        return 200, json.dumps(RECORDED)

    with web_ui(answer) as url:
        assert len(read_executors([url], "app-1")) == 2
    assert asked == ["/api/v1/applications/app-1/allexecutors"]


@pytest.mark.parametrize(("status", "text"), [(500, ""), (403, "no"), (200, "<html>log in</html>"), (200, "{}")])
def test_whatever_does_not_answer_is_one_kind_of_error(status: int, text: str) -> None:
    with web_ui(lambda path: (status, text)) as url, pytest.raises(ProcessError, match="REST API"):
        read_executors([url], "app-1")
    with pytest.raises(ProcessError, match="REST API"):
        read_executors([url], "app-1", timeout=1.0)  # nobody listens there any more


class Kept:
    """Takes what a watch measures."""

    def __init__(self) -> None:
        self.measurements: list[Measurement] = []
        self.events: list[tuple[str, dict[str, str]]] = []

    def measure(self, measurements: object) -> None:
        self.measurements.extend(measurements)  # type: ignore[arg-type]

    def event(self, kind: str, **detail: str) -> None:
        self.events.append((kind, detail))


class Heartbeats:
    """The newest of the recorded executors, which rise and fall from one reading to the next."""

    def __init__(self, session: object, sizes: Sequence[int] = (900, 300, 600)) -> None:
        self._sizes = itertools.cycle(sizes)

    def newest(self) -> dict[str, dict[str, int]]:
        size = next(self._sizes) * MIB
        return {str(entry["id"]): {JVM: size, PYTHON: 0, HEAP: 0, OFF_HEAP: 0} for entry in RECORDED}


def unmeasured(session: object) -> Heartbeats:
    raise LookupError("SparkListener")


def session(url: str | None, master: str = "spark://m:7077") -> object:
    conf = SimpleNamespace(getAll=lambda: [("spark.executor.memory", "600m")])
    context = SimpleNamespace(master=master, uiWebUrl=url, applicationId="app-1", getConf=lambda: conf)
    return SimpleNamespace(sparkContext=context)


@pytest.mark.parametrize(("listen", "sizes"), [(Heartbeats, {300, 600, 900}), (unmeasured, set())])
def test_watch_keeps_measurements_and_reports_each_loss_once(
    monkeypatch: pytest.MonkeyPatch, listen: Callable[[object], Heartbeats], sizes: set[int]
) -> None:
    """Its first read fails, and it goes on. The memory of an executor falls again, and its absence hides no count."""
    monkeypatch.setattr("streamwarden.spark.executors.watch.EVERY", 0.01)
    monkeypatch.setattr("streamwarden.spark.executors.watch.UNTIL_THE_FIRST", 0.01)
    asked = []

    def answer(path: str) -> tuple[int, str]:
        asked.append(path)
        return (500, "") if len(asked) <= 2 else (200, json.dumps(RECORDED))  # two addresses are tried

    kept = Kept()
    clock = itertools.count(5.0, 0.001)
    with web_ui(answer) as url:
        watch = ExecutorWatch("a", kept, listen=listen, clock=lambda: next(clock))
        watch.opened(session(url))
        deadline = time.monotonic() + 10
        while len(asked) < 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        watch.close()
    assert kept.measurements[0].name == UNREAD
    assert latest_snapshot(kept.measurements[:1], now=5.0) is None
    look = latest_snapshot(kept.measurements, now=5.0)
    assert look is not None
    assert (look.active, look.lost) == (1, 1)
    assert {limit for _, limit in look.memory.values()} == ({984 * MIB} if sizes else set())
    assert {each.value / MIB for each in kept.measurements if each.name == BYTES} == sizes
    assert kept.events[0] == (UI_SERVED, {"url": url})
    assert [kind for kind, _ in kept.events[1:]] == [EXECUTOR_LOST], "read several times, told once"
    assert {each.value for each in kept.measurements if each.name == LOST} == {1.0}


@pytest.mark.parametrize(
    "opened", [session("http://127.0.0.1:9", master="local[2]"), session(None), SimpleNamespace(sparkContext=None)]
)
def test_no_session_is_harmed_by_being_watched(opened: object) -> None:
    kept = Kept()
    before = threading.active_count()
    ExecutorWatch("a", kept).opened(opened)
    assert threading.active_count() == before
    assert kept.measurements == []
