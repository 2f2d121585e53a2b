"""The health monitor over a real store and checkpoints laid out as Spark lays them out."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from streamwarden.adapters.processes import this_host
from streamwarden.adapters.store import Store
from streamwarden.drills.records.sections import DOCUMENTED_CHECKS
from streamwarden.errors import CheckpointError, StoreError
from streamwarden.health.check import Check
from streamwarden.health.checks import CHECKS
from streamwarden.health.incidents.incident import IncidentPolicy
from streamwarden.health.resting import MEASURED_EVERY
from streamwarden.health.signals.partitions import LARGEST, MEDIAN, SMALLEST
from streamwarden.health.verdict import Status
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.driver import DriverEvent, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.driver_folder import QUARANTINE_GAP
from streamwarden.lifecycle.queries import Part
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from streamwarden.services.monitoring import probe as probing
from streamwarden.services.monitoring.health_monitor import RECORDED, HealthMonitor
from streamwarden.services.monitoring.probe import ProbeResult, probe
from streamwarden.services.monitoring.reachability import Services
from streamwarden.services.notifying.messages import Notification
from streamwarden.services.notifying.notifiers import Channel
from streamwarden.services.notifying.sending import send_due
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import StreamSpec
from support.streams.health_windows import report, spec
from support.streams.monitored import T0, Stream, by_check, me


def sent(store: Store, at: float) -> list[str]:
    """The checks about which a message is sent at `at`."""
    messages: list[Notification] = []
    send_due(store, [Channel("test", messages.append)], at, resend_interval=3600.0)
    return [message.incident.check for message in messages if message.incident is not None]


def test_a_healthy_stream_is_judged_by_everything_that_is_seen(tmp_path: Path, store: Store) -> None:
    """20 batches, a living driver, fresh measurements: only the forecast has too little history."""
    stream = Stream(tmp_path, store)
    stream.run(range(20))
    stream.drive(me())
    store.measurements.add(
        Measurement(stream="orders", name="resident_bytes", at=T0 - 10 * n, value=9e8, unit="bytes", source="runner")
        for n in range(5)
    )
    result = HealthMonitor(store).evaluate([stream.spec], T0)
    health = result.streams["orders"]
    all_of_a_stream = [check.name for check in CHECKS if Part.WHOLE in check.judges]
    assert [verdict.check for verdict in health.verdicts] == all_of_a_stream
    assert {verdict.check: verdict.reason for verdict in health.verdicts if verdict.status is not Status.OK}.keys() == {
        "batches_skipped",  # its output was never written
        "state_growth",
    }
    assert health.status is Status.OK  # a forecast needs more history than there is
    assert health.problems == ()
    assert sent(store, T0) == []
    assert {verdict.check for verdict in store.verdicts.latest("orders")} == set(all_of_a_stream)
    assert set(result.seconds) == {"read", "check", "save"}


def test_of_some_checks_only_what_they_need_is_read(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdicts are the same: those of the five documented checks need neither the state's files nor the logs of the
    output, which take seconds in an object store."""
    stream = Stream(tmp_path, store)
    stream.run(range(20))
    stream.drive(me())
    monitor, read = HealthMonitor(store), list[str]()
    in_full = [verdict for verdict in monitor.judge(stream.spec, T0) if verdict.check in DOCUMENTED_CHECKS]

    def noted(name: str) -> Callable[..., object]:
        rightly = getattr(probing, name)
        return lambda *args: [read.append(name), rightly(*args)][1]

    for name in ("state_stores", "compact_logs", "skipped_batches"):
        monkeypatch.setattr(probing, name, noted(name))
    assert list(monitor.judge(stream.spec, T0, DOCUMENTED_CHECKS)) == in_full
    assert read == []
    (skew,) = monitor.judge(stream.spec, T0, ["partition_skew"])
    assert (skew.check, read) == ("partition_skew", ["state_stores"])


def test_batches_whose_reports_a_kill_lost_are_filled_in_from_the_logs(tmp_path: Path, store: Store) -> None:
    stream = Stream(tmp_path, store)
    stream.run(range(5), until=T0 - 50)
    stream.run(range(5, 10), reported=False)
    HealthMonitor(store).evaluate([stream.spec], T0)
    filled = [batch for batch in store.batches.window("orders") if batch.progress is None]
    assert [batch.batch_id for batch in filled] == [5, 6, 7, 8, 9]
    assert [batch.committed_at for batch in filled] == [T0 - 41 + 10 * n for n in range(5)]
    assert all(batch.planned_at == (batch.committed_at or 0) - 1 for batch in filled)


def test_a_checkpoint_that_goes_away_while_it_is_read_costs_only_the_filling_in(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, logged: StringIO
) -> None:
    """The storage answered the probe and fails a moment later."""
    stream = Stream(tmp_path, store)
    stream.run(range(10))
    stream.run(range(10, 12), reported=False)

    def gone(_: ProbeResult) -> None:
        raise CheckpointError("the checkpoint cannot be read: connection reset")

    monkeypatch.setattr(ProbeResult, "times", gone)
    verdicts = by_check(HealthMonitor(store).evaluate([stream.spec], T0).verdicts)
    assert verdicts["checkpoint_duration"].status is Status.OK
    assert "the times of lost batches were not filled in" in logged.getvalue()


def test_a_batch_that_hangs_is_seen_through_the_logs_alone(tmp_path: Path, store: Store) -> None:
    """The reports end with batch 19, all well; batch 20 was planned an hour ago."""
    stream = Stream(tmp_path, store)
    stream.run(range(20), until=T0 - 3_600)
    stream.plan(20, T0 - 3_600)
    stream.drive(me())
    verdict = by_check(HealthMonitor(store).judge(stream.spec, T0))["progress_stalled"]
    assert verdict.status is Status.CRITICAL
    assert verdict.evidence["waited_s"] == pytest.approx(600)  # since this driver's launch


def test_a_checkpoint_that_does_not_exist_makes_nothing_fail(tmp_path: Path, store: Store) -> None:
    missing = spec(checkpoint=str(tmp_path / "nowhere"), source=FilesSource(path=str(tmp_path / "nothing")))
    result = HealthMonitor(store).evaluate([missing], T0)
    assert {verdict.status for verdict in result.verdicts if verdict.check != "backlog"} == {Status.UNKNOWN}


def test_a_storage_that_cannot_be_opened_is_named_and_the_others_are_judged(tmp_path: Path, store: Store) -> None:
    well = Stream(tmp_path, store)
    well.run(range(20))
    broken = spec(name="clicks", checkpoint="nosuchscheme://bucket/clicks")
    result = HealthMonitor(store).evaluate([broken, well.spec], T0)
    assert "nosuchscheme" in result.streams["clicks"].problems[0]
    assert by_check(result.streams["orders"].verdicts)["checkpoint_duration"].status is Status.OK


def test_damaged_source_log_affects_only_the_checks_that_read_it(tmp_path: Path, store: Store) -> None:
    stream = Stream(tmp_path, store)
    stream.run(range(20))
    (stream.checkpoint / "sources/0/7").write_text("v1\n{half")
    result = HealthMonitor(store).evaluate([stream.spec], T0)
    assert "sources/0/7" in result.streams["orders"].problems[0]
    verdicts = by_check(result.verdicts)
    assert verdicts["backlog"].status is Status.UNKNOWN
    assert verdicts["checkpoint_duration"].status is Status.OK
    assert verdicts["replay_debt"].status is Status.OK


def test_incident_is_opened_once_notified_and_resolved(tmp_path: Path, store: Store) -> None:
    """60 s checkpoints for four evaluations, then good ones: one incident, one message due, an end after three."""
    stream = Stream(tmp_path, store)
    stream.run(range(20), checkpoint_ms=60_000)
    stream.drive(me())
    health_monitor = HealthMonitor(store, policy=IncidentPolicy(resolve_after=3))

    def mine(at: float) -> tuple[list[str], list[str], list[str]]:
        result = health_monitor.evaluate([stream.spec], at)
        changes = result.changes
        return (
            [each.check for each in changes.opened],
            [each.check for each in changes.resolved],
            sent(store, at),
        )

    assert mine(T0) == (["checkpoint_duration"], [], ["checkpoint_duration"])
    assert mine(T0 + 60) == ([], [], [])
    assert mine(T0 + 120) == ([], [], [])
    stream.run(range(20, 40), until=T0 + 300)
    assert mine(T0 + 301) == ([], [], [])
    assert mine(T0 + 302) == ([], [], [])
    assert mine(T0 + 303) == ([], ["checkpoint_duration"], ["checkpoint_duration"])
    assert store.incidents.open("orders") == ()


def test_a_fork_is_judged_without_a_trace(tmp_path: Path, store: Store) -> None:
    """Drills ask for verdicts on forks: nothing is kept, nobody is told."""
    stream = Stream(tmp_path, store, name="orders__fork")
    stream.run(range(20), checkpoint_ms=60_000)
    verdict = by_check(HealthMonitor(store).judge(stream.spec, T0))["checkpoint_duration"]
    assert (verdict.stream, verdict.status) == ("orders__fork", Status.CRITICAL)
    assert store.verdicts.latest() == ()
    assert store.incidents.open() == ()


def test_what_only_checks_measure_is_kept_while_the_driver_lives(tmp_path: Path, store: Store) -> None:
    """The forecast reads the size of state; the charts read all of them."""
    stream = Stream(tmp_path, store)
    stream.run(range(20))
    hot = stream.checkpoint / "state/0/1/1.zip"
    hot.parent.mkdir()
    hot.write_text("x" * 9000)
    stream.drive(me())
    HealthMonitor(store).evaluate([stream.spec], T0)
    kept = {each.name: each for each in store.measurements.recent("orders", T0 - 1)}
    verdicts = by_check(store.verdicts.latest("orders"))
    expected = {name: verdicts[check] for check, name in RECORDED.items() if verdicts[check].value is not None}
    assert {"state_bytes", "backlog_seconds"} <= set(expected)
    by_partition = {LARGEST: 9000.0, MEDIAN: 6500.0, SMALLEST: 20 * 200.0}
    assert {name: (each.value, each.unit) for name, each in kept.items()} == {
        **{name: (verdict.value, verdict.unit) for name, verdict in expected.items()},
        **{name: (value, "bytes") for name, value in by_partition.items()},
    }
    stream.store.drivers.exited("orders-1", ExitRecord(kind=ExitKind.KILLED, ended_at=T0))
    HealthMonitor(store).evaluate([stream.spec], T0 + 60)
    assert len(store.measurements.recent("orders", T0 - 1)) == len(kept)


def test_partitions_are_measured_every_ten_minutes_at_most_and_the_verdict_says_when(
    tmp_path: Path, store: Store
) -> None:
    """In between the verdict is the one of the last measurement. A partition that alarms is measured each time."""
    stream = Stream(tmp_path, store)
    stream.run(range(20))
    HealthMonitor(store).evaluate([stream.spec], T0)
    first = by_check(store.verdicts.latest("orders"))["partition_skew"]
    assert (first.status, first.evidence["measured_at"], first.evidence["partitions"]) == (Status.OK, T0, 1)

    hot = stream.checkpoint / "state/0/1/1.zip"
    hot.parent.mkdir()
    hot.touch()
    os.truncate(hot, 10**9)
    HealthMonitor(store).evaluate([stream.spec], T0 + 60)
    kept = by_check(store.verdicts.latest("orders"))["partition_skew"]
    assert (kept.at, kept.reason, kept.evidence) == (T0 + 60, first.reason, first.evidence)

    HealthMonitor(store).evaluate([stream.spec], T0 + MEASURED_EVERY)
    skewed = by_check(store.verdicts.latest("orders"))["partition_skew"]
    assert (skewed.status, skewed.evidence["measured_at"]) == (Status.CRITICAL, T0 + MEASURED_EVERY)

    os.truncate(hot, 0)
    HealthMonitor(store).evaluate([stream.spec], T0 + MEASURED_EVERY + 60)
    again = by_check(store.verdicts.latest("orders"))["partition_skew"]
    assert again.evidence["measured_at"] == T0 + MEASURED_EVERY + 60, "one that alarms is measured each time"


GONE = ProcessIdentity(host=this_host(), pid=2**22 + 1, started_at=1)
ELSEWHERE = ProcessIdentity(host="elsewhere/boot/1", pid=1, started_at=1)


def test_a_driver_of_this_host_is_alive_if_its_process_is(tmp_path: Path, store: Store) -> None:
    for number, (process, alive) in enumerate([(me(), True), (GONE, False)], start=1):
        stream = Stream(tmp_path, store, name=f"s{number}")
        stream.drive(process)
        assert HealthMonitor(store).window(stream.spec, T0).driver_alive is alive


def test_a_driver_of_another_host_is_alive_as_long_as_its_lease(tmp_path: Path, store: Store) -> None:
    """One look after its lapse tells nothing: the store may have been away. At the next one it has had its chance."""
    stream = Stream(tmp_path, store)
    stream.drive(ELSEWHERE)
    lease = store.leases.acquire(stream.spec.checkpoint, stream="orders", holder="orders-1", ttl=30, now=T0)
    lease = store.leases.bind(lease, ELSEWHERE, ttl=30, now=T0)

    def alive(now: float) -> bool | None:
        found = HealthMonitor(store).window(stream.spec, now).driver_alive
        HealthMonitor(store).evaluate([stream.spec], now)
        return found

    assert [alive(T0 + after) for after in (29, 89, 91, 149)] == [True, None, None, False]
    store.leases.renew(lease, ttl=30, now=T0 + 150)
    assert alive(T0 + 151) is True
    store.leases.release(lease, now=T0 + 152)
    assert alive(T0 + 153) is False


def test_a_driver_launched_weeks_ago_is_still_the_streams_driver(tmp_path: Path, store: Store) -> None:
    stream = Stream(tmp_path, store)
    stream.drive(me())
    later = T0 + 30 * 86_400
    window = HealthMonitor(store).window(stream.spec, later)
    assert [driver.driver_id for driver in window.drivers] == ["orders-1"]
    assert window.driver_alive is True


def test_stream_stopped_by_a_person_after_a_failure_sends_no_notification(tmp_path: Path, store: Store) -> None:
    """No driver is alive to obey: the stop remains as the desired state, until a person starts the stream."""
    stream = Stream(tmp_path, store)
    stream.run(range(20), until=T0 - 80_000)
    for number in range(1_500):
        stream.drop(f"new-{number}.json")
    stream.drive(None, exit=ExitRecord(kind=ExitKind.FAILED, ended_at=T0 - 80_000, curable=False))

    def critical() -> set[str]:
        verdicts = HealthMonitor(store).judge(stream.spec, T0)
        return {each.check for each in verdicts if each.status is Status.CRITICAL}

    stopped = DesiredState(
        stream="orders", desired=Desired.STOPPED, changed_by="ann", reason="new schema", changed_at=T0 - 79_000
    )
    assert critical() == {"driver_down", "progress_stalled", "restart_loop", "backlog"}
    store.stops.set_desired(stopped)
    assert critical() == set()
    store.stops.set_desired(replace(stopped, desired=Desired.RUNNING))
    assert critical() == {"driver_down", "progress_stalled", "restart_loop", "backlog"}


def test_evaluations_at_the_same_moment_open_one_incident_a_check(tmp_path: Path, store: Store) -> None:
    """The health DAG and four people's `streamwarden check` at once, on ten sick streams."""
    streams = [Stream(tmp_path, store, name=f"s{n}") for n in range(10)]
    for stream in streams:
        stream.run(range(6), checkpoint_ms=60_000)
    gate = threading.Barrier(5)
    errors: list[BaseException] = []

    def evaluate() -> None:
        try:
            gate.wait(timeout=30)
            HealthMonitor(store).evaluate([stream.spec for stream in streams], T0)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=evaluate) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert errors == []
    opened = [(each.stream, each.check) for each in store.incidents.open()]
    assert len(opened) == len(set(opened))
    assert {name for name, check in opened if check == "checkpoint_duration"} == {stream.name for stream in streams}


def test_a_store_that_is_gone_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        HealthMonitor(Store(f"sqlite:///{tmp_path}/no/such/folder/store.db")).evaluate([spec()], T0)


def test_a_broker_that_is_down_blinds_no_other_stream(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty topics of a broker whose port is closed, each with the same five seconds to wait for it, and a stream of
    files whose driver was killed: judged within the time of a few of them, and every stream says what was not seen."""
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", json.dumps({"extra": {"bootstrap.servers": "127.0.0.1:1"}}))
    source = KafkaSource(connection="events", topic="orders")
    topics = [Stream(tmp_path, store, name=f"topic{n}", source=source) for n in range(30)]
    for stream in topics:
        stream.plan(0, T0 - 60)
        log = stream.checkpoint / "offsets/0"
        log.write_text("\n".join([*log.read_text().splitlines()[:2], '{"orders":{"0":5}}']))
    killed = Stream(tmp_path, store, name="files")
    killed.run(range(20))
    for number in range(1, 6):
        killed.drive(GONE, number=number, exit=ExitRecord(kind=ExitKind.KILLED, ended_at=T0 - 10 * number))
    began = time.monotonic()
    result = HealthMonitor(store).evaluate([*(stream.spec for stream in topics), killed.spec], T0)
    assert time.monotonic() - began < 40, "one after the other they take 150 s"
    down, loop = store.incidents.open("files")
    assert (down.check, down.is_root, loop.check, loop.consequence_of) == (
        "driver_down", True, "restart_loop", down.incident_id
    )  # fmt: skip
    for stream in topics:
        (problem,) = result.streams[stream.name].problems
        assert "orders" in problem
        assert "connection events" in problem


def test_what_was_judged_before_an_evaluation_is_ended_is_kept(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time limit strikes while the last of 51 streams is looked at: the incident of the first one stands."""
    sick = Stream(tmp_path, store)
    sick.run(range(6), checkpoint_ms=60_000)
    others = [spec(name=f"s{n}", checkpoint=str(tmp_path / f"s{n}")) for n in range(50)]

    def ended_at_the_last(
        looked_at: StreamSpec, services: Services, checks: Sequence[Check], **known: object
    ) -> ProbeResult:
        if looked_at.name == "s49":
            raise TimeoutError
        return probe(looked_at, services, checks, **known)  # type: ignore[arg-type]

    monkeypatch.setattr("streamwarden.services.monitoring.health_monitor.probe", ended_at_the_last)
    with pytest.raises(TimeoutError):
        HealthMonitor(store).evaluate([sick.spec, *others], T0)
    assert by_check(store.verdicts.latest("orders"))["checkpoint_duration"].status is Status.CRITICAL
    assert [each.check for each in store.incidents.open("orders")] == ["checkpoint_duration"]


def test_growth_is_forecast_from_batches_alone(tmp_path: Path, store: Store) -> None:
    """A driver has committed a batch each two seconds for 20 minutes. No housekeeping and no evaluation ever ran."""
    stream = Stream(tmp_path, store)
    reports = [
        report(
            n,
            T0 - 2 * (600 - n),
            top={"batchDuration": 1000},
            operator={"memoryUsedBytes": 0},
            custom={"rocksdbSstFileSize": 10**6 * n},
        )
        for n in range(600)
    ]
    store.batches.upsert_many("orders", reports)
    stream.plan(599, T0 - 2)
    stream.commit(599, T0 - 1)
    stream.drive(me())
    window = HealthMonitor(store).window(stream.spec, T0)
    assert (len(window.batches), window.older[0].batch_id) == (100, 0)
    assert len(window.older) <= 30
    verdict = by_check(HealthMonitor(store).judge(stream.spec, T0))["state_growth"]
    assert verdict.status is Status.WARNING
    assert "state grows by 1.8 GB/h, measured over 19m 58s" in verdict.reason


def test_malformed_rows_are_judged_with_their_reasons_and_with_those_that_nobody_kept(
    tmp_path: Path, store: Store
) -> None:
    """The quarantine has rows of batch 18, none of batch 19 yet, and gave batch 3 up."""
    stream = Stream(tmp_path, store, quarantine=str(tmp_path / "quarantine"))
    stream.run(range(20), reported=False)
    for batch in range(20):
        counts = {"input": {"read": 100, "malformed": 40}}
        at = T0 - 2 - 10 * (19 - batch)
        store.batches.upsert_progress("orders", report(batch, at, top={"observedMetrics": counts}))
    folder = tmp_path / "quarantine" / f"query={report().query_id}" / "batch=18"
    folder.mkdir(parents=True)
    (folder / "part-0.json").write_text(json.dumps({"raw": "{oops", "reason": "not a JSON object"}) + "\n")
    stream.drive(me())
    detail = {"query_id": report().query_id, "first": "3", "last": "3", "reason": "the file is gone"}
    driver_id = store.drivers.latest("orders").driver_id  # type: ignore[union-attr]
    store.drivers.event(DriverEvent(driver_id=driver_id, at=T0 - 60, kind=QUARANTINE_GAP, detail=detail))
    verdicts = by_check(HealthMonitor(store).evaluate([stream.spec], T0).streams["orders"].verdicts)
    malformed, not_kept = verdicts["malformed_rows"], verdicts["malformed_not_kept"]
    assert (malformed.status, malformed.value) == (Status.CRITICAL, 0.4)
    assert "in batch 18: not a JSON object (1)" in malformed.reason
    assert malformed.evidence["example"] == "{oops"
    assert (not_kept.status, not_kept.value) == (Status.WARNING, 40)
    later = by_check(HealthMonitor(store).evaluate([stream.spec], T0 + 86_400).streams["orders"].verdicts)
    assert later["malformed_not_kept"].status is Status.OK
