"""Whether a service answers, asked once for all streams that need it, over real sockets."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamwarden.health.signals.services import Need
from streamwarden.health.window import Answer, Service
from streamwarden.services.monitoring.probe import probe
from streamwarden.services.monitoring.reachability import SLOW_AFTER, Services
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import StreamSpec
from support.streams.health_windows import spec

WAREHOUSE = Need(Service.DATABASE, "warehouse")
EVENTS = Need(Service.BROKER, "events")


@pytest.fixture
def deaf() -> Iterator[socket.socket]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        server.settimeout(0.2)
        yield server


def connections(server: socket.socket) -> int:
    """How many clients have connected."""
    found = []
    try:
        while True:
            found.append(server.accept()[0])
    except TimeoutError:
        return len(found)
    finally:
        for each in found:
            each.close()


def test_a_server_that_hangs_is_asked_once_for_all_streams(
    deaf: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = deaf.getsockname()[1]
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", f"postgresql://ann:secret-word@127.0.0.1:{port}/x")
    services = Services(within=2)
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(services.answer, [WAREHOUSE] * 8))
    assert time.monotonic() - began < 6, "eight of them take 16 s"
    assert {each.reached for each in answers} == {False}
    assert {each.address for each in answers} == {f"127.0.0.1:{port}"}
    assert "secret-word" not in f"{answers}"
    assert connections(deaf) == 1


def test_a_port_that_is_closed_is_an_answer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", "postgresql://ann:secret-word@127.0.0.1:1/x")
    answer = Services().answer(WAREHOUSE)
    assert (answer.reached, answer.source) == (False, "warehouse at 127.0.0.1:1")
    assert "refused" in answer.problem


def test_every_host_of_a_database_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two servers of which one is the primary: both are away, and the person on call looks at both."""
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", "postgresql://ann:secret-word@127.0.0.1:1,127.0.0.2:2/x")
    answer = Services().answer(WAREHOUSE)
    assert (answer.reached, answer.address) == (False, "127.0.0.1:1,127.0.0.2:2")


@pytest.mark.parametrize(
    ("need", "value", "words"),
    [
        (WAREHOUSE, None, "is not known here"),
        (EVENTS, None, "is not known here"),
        (WAREHOUSE, "kafka://127.0.0.1:1", "is of the type kafka"),
        (EVENTS, '{"conn_type": "kafka"}', "names no broker"),
        (EVENTS, '{"extra": {"bootstrap.servers": "127.0.0.1:1", "no.such.setting": 1}}', "are refused"),
    ],
)
def test_what_cannot_be_asked_is_neither_there_nor_away(
    monkeypatch: pytest.MonkeyPatch, need: Need, value: str | None, words: str
) -> None:
    variable = f"AIRFLOW_CONN_{need.connection.upper()}"
    monkeypatch.delenv(variable, raising=False)
    if value is not None:
        monkeypatch.setenv(variable, value)
    answer = Services().answer(need)
    assert answer.reached is None
    assert words in answer.problem


class Answering(Services):
    """Every broker answers when it is asked whether it is there."""

    def answer(self, need: Need) -> Answer:
        return Answer(service=need.service, connection=need.connection, address="127.0.0.1:1", reached=True)


def planned(root: Path) -> StreamSpec:
    """A stream that has read five records of a topic."""
    (root / "offsets").mkdir(parents=True)
    (root / "offsets/0").write_text('v1\n{"batchWatermarkMs":0}\n{"orders":{"0":5}}')
    source = KafkaSource(connection="events", topic="orders")
    return spec(source=source, checkpoint=str(root))


def test_a_broker_that_answers_and_gives_no_offsets_holds_up_few_streams(
    tmp_path: Path, deaf: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stream waits for its offsets, here 0.25 s; once three waited in vain the others are not asked."""
    monkeypatch.setattr("streamwarden.sources.kafka.lag.ANSWER_WITHIN", 0.25)
    bootstrap = {"bootstrap.servers": f"127.0.0.1:{deaf.getsockname()[1]}"}
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", json.dumps({"extra": bootstrap}))
    services = Answering()
    streams = [planned(tmp_path / str(number)) for number in range(SLOW_AFTER + 20)]
    began = time.monotonic()
    probe(planned(tmp_path / "alone"), Answering())
    alone, began = time.monotonic() - began, time.monotonic()
    with ThreadPoolExecutor(SLOW_AFTER) as pool:
        found = list(pool.map(lambda each: probe(each, services), streams))
    assert time.monotonic() - began < 6 * alone, "twenty-three of them, three at a time, take eight times as long"
    assert all(each.waiting is None for each in found)
    asked = [each for each in found if "does not report the offsets" in each.problems[0]]
    skipped = [each for each in found if "gave no offsets for several other streams" in each.problems[0]]
    assert len(asked) + len(skipped) == len(streams)
    assert SLOW_AFTER <= len(asked) < 2 * SLOW_AFTER, "those that were asked at the same moment, and no more"
    assert all("the connection events" in each.problems[0] for each in skipped)
    assert {each.answers[0].reached for each in asked} == {False}, "for these streams the broker is away"
    assert {each.answers[0].reached for each in skipped} == {None}, "nothing is known of the others"


def test_two_slow_streams_are_no_reason_to_skip_a_third(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a partition without a leader belongs to one topic, and others may be well."""
    monkeypatch.delenv("AIRFLOW_CONN_EVENTS", raising=False)
    services = Answering()
    for _ in range(SLOW_AFTER - 1):
        services.was_slow("events")
    (problem,) = probe(planned(tmp_path), services).problems
    assert "gave no offsets" not in problem
