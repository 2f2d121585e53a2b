"""A real broker and a real database that go away for five minutes, as the health evaluation sees them each 75 seconds.

The clock is passed in: the outage is as long as the times say, and nothing waits.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.health.signals.services import Need
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Service
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.services.monitoring.reachability import Services, ask_broker, ask_database
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import StreamSpec
from support.servers.kafka_broker import Broker, broker
from support.servers.postgres_server import PostgreSQL, running

START = 1_795_000_000.0
STEP = 75.0
CHECKS = ("broker_unreachable", "database_unreachable")


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with broker() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_EVENTS", made.connection)
        made.create("events")
        made.produce("events", ["{}"] * 5)
        yield made


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with running() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_WAREHOUSE", made.connection("postgres"))
        yield made


@pytest.fixture
def stream(tmp_path: Path) -> StreamSpec:
    """It reads a topic, writes to a table, and has read and committed all that there is."""
    checkpoint = tmp_path / "checkpoint"
    for folder, text in (
        ("offsets", 'v1\n{"batchWatermarkMs":0}\n{"events":{"0":5}}'),
        ("commits", 'v1\n{"nextBatchWatermarkMs":0}'),
    ):
        (checkpoint / folder).mkdir(parents=True)
        (checkpoint / folder / "0").write_text(text)
        os.utime(checkpoint / folder / "0", (START - 60, START - 60))
    (checkpoint / "metadata").write_text(json.dumps({"id": "5ca1ab1e-0000-4000-8000-000000000001"}))
    return StreamSpec(
        name="counts",
        job="job.py",
        checkpoint=str(checkpoint),
        source=KafkaSource(connection="events", topic="events"),
        sink=PostgresqlSink(connection="warehouse", table="counts"),
    )


class Watch:
    """Evaluations of one stream, one each 75 seconds of a clock of the test, and what they opened and resolved."""

    def __init__(self, store: Store, stream: StreamSpec) -> None:
        self.store, self.stream, self.looks = store, stream, 0
        self.opened: list[str] = []
        self.resolved: list[str] = []

    def look(self, times: int = 1) -> dict[str, Verdict]:
        """The verdicts of the last of so many evaluations."""
        for _ in range(times):
            report = HealthMonitor(self.store).evaluate([self.stream], START + STEP * self.looks)
            self.looks += 1
            self.opened += [each.check for each in report.changes.opened if each.check in CHECKS]
            self.resolved += [each.check for each in report.changes.resolved if each.check in CHECKS]
        return {each.check: each for each in report.verdicts}


@pytest.mark.parametrize("gone", CHECKS)
def test_five_minutes_without_a_service_are_an_incident_with_its_name(
    kafka: Broker, database: PostgreSQL, stream: StreamSpec, tmp_path: Path, gone: str
) -> None:
    """Both answer; one is stopped for a blip, then for five minutes; then it is back."""
    stop: Callable[[], None] = kafka.kill if gone == CHECKS[0] else database.stop
    start: Callable[[], None] = kafka.start if gone == CHECKS[0] else database.start
    port = kafka.port if gone == CHECKS[0] else database.port
    other = CHECKS[1] if gone == CHECKS[0] else CHECKS[0]
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.migrate()
        watch = Watch(store, stream)
        verdicts = watch.look()
        assert [verdicts[name].status for name in CHECKS] == [Status.OK, Status.OK]
        stop()
        try:
            blip = watch.look()[gone]
        finally:
            start()
        assert (blip.status, blip.value) == (Status.UNKNOWN, 0)
        assert watch.look()[gone].status is Status.OK, "it is back: that was a blip"
        stop()
        try:
            verdicts = watch.look(times=5)
        finally:
            start()
        away = verdicts[gone]
        assert (away.status, away.value) == (Status.WARNING, 300)
        assert f"127.0.0.1:{port}" in away.reason
        assert "refused" in away.reason
        assert verdicts[other].status is Status.OK, "negative control: the other one answers"
        assert (watch.opened, watch.resolved) == ([gone], [])
        assert watch.look(times=3)[gone].status is Status.OK
        assert (watch.opened, watch.resolved) == ([gone], [gone])
        kept = [
            each for each in store.measurements.recent("counts", START) if each.name == away.check.replace("un", "")
        ]
        assert [each.value for each in kept] == [1, 0, 1, *[0] * 5, *[1] * 3]


def test_a_broker_that_hangs_does_not_answer(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its port takes connections; many streams that ask for it wait once."""
    pid = int((kafka.folder / "pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        services = Services(within=2)
        began = time.monotonic()
        answers = [services.answer(Need(Service.BROKER, "events")) for _ in range(10)]
        assert {each.reached for each in answers} == {False}
        assert time.monotonic() - began < 15, "ten of them would take 20 s"
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ask_broker("events", 20).reached is True


def test_a_service_that_refuses_this_user_is_not_away(database: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers, so no outage is said; nor is it said to be well."""
    secret = database.connection("postgres").replace(database.password, "wrong-word")
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", secret)
    refused = ask_database("warehouse", 5)
    assert refused.reached is None
    assert "password authentication failed" in refused.problem
    assert "wrong-word" not in f"{refused}"
    monkeypatch.delenv("AIRFLOW_CONN_WAREHOUSE")
    unknown = Services().answer(Need(Service.DATABASE, "warehouse"))
    assert unknown.reached is None
    assert "is not known here" in unknown.problem
