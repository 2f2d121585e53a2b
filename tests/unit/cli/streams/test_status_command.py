"""`status`: what the store knows of a stream, reported correctly."""

import re
import time
from collections.abc import Iterable
from dataclasses import replace

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.health.signals.executors import UNREAD
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.driver import DriverEvent, ExitKind, ProcessIdentity
from streamwarden.lifecycle.driver_folder import QUARANTINE_GAP
from streamwarden.lifecycle.supervision.standby import StandbyState, standby_event
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from streamwarden.spark.executors.metrics import SparkExecutor
from streamwarden.spark.executors.watch import measurements
from support.command_line import CommandLine
from support.streams.recorded_drivers import NOW, driver, ended
from support.streams.reports import report


def test_the_last_line_says_when_the_streams_were_judged_and_by_which_process(cli: CommandLine) -> None:
    cli.project.stream("a")
    assert "No evaluation of all streams is recorded" in cli("status").out
    cli("check")
    assert re.search(r"Last evaluation [0-9.]+ m?s ago by `streamwarden check` on ", cli("status").out)
    last = cli("status", "--json").json["last_evaluation"]
    assert not last["late"]


def test_a_stream_that_never_ran_is_new_and_no_trouble(cli: CommandLine) -> None:
    cli.project.stream("a")
    answer = cli("status", "--json")
    assert answer.code == Exit.OK
    stream = answer.json["streams"][0]
    assert (stream["stream"], stream["state"], stream["health"]) == ("a", "new", "UNKNOWN")


def test_the_group_of_a_stream_is_shown(cli: CommandLine) -> None:
    cli.project.stream("a", "group: small")
    cli.project.stream("b")
    assert [stream["group"] for stream in cli("status", "--json").json["streams"]] == ["small", ""]
    assert "small" in cli("status", "--wide", "--all").out


def test_a_stream_that_differs_from_its_group_is_broken_and_no_other(cli: CommandLine) -> None:
    for name in ("b", "c"):
        cli.project.stream(name, "group: small")
    cli.project.stream("a", "group: small\nspark: {master: 'local[7]'}")
    states = {stream["stream"]: stream["state"] for stream in cli("status", "--json").json["streams"]}
    assert states == {"a": "broken", "b": "new", "c": "new"}
    assert "equal settings of the JVM in all streams of a group" in cli("validate").out.replace("\n", " ")


def test_malformed_rows_are_reported_beside_the_rows(cli: CommandLine) -> None:
    """As the share of the newest batches: a total since the first start says nothing of today."""
    cli.project.stream("a", "quarantine: quarantine/a")
    counted = {
        "input": {"read": 600, "malformed": 7},
        "input_1": {"read": 5, "malformed": 2},
        "other": {"malformed": 9},
    }
    with cli.store() as store:
        for number in range(2):
            store.batches.upsert_progress("a", report(number, observedMetrics=counted))
    assert cli("status", "--json").json["streams"][0]["malformed"] == 2 * 9
    assert "malformed" not in cli("status").out
    cli("check")
    assert cli("status", "--json").json["streams"][0]["malformed_share"] == pytest.approx(9 / 605)
    assert "(1.49 % malformed)" in cli("status").out.replace("\n", " ")


def test_malformed_rows_that_are_not_kept_aside_are_reported_as_such(cli: CommandLine) -> None:
    """A gap that two drivers reported, each as far as it knew, counts once."""
    cli.project.stream("a")
    record = driver(cli)
    with cli.store() as store:
        for number in range(4):
            store.batches.upsert_progress("a", report(number, observedMetrics={"input": {"malformed": 5}}))
        query = report(0).query_id
        for first, last in ((0, 0), (0, 1), (1, 1)):
            gap = {"query_id": query, "first": str(first), "last": str(last), "reason": "gone"}
            store.drivers.event(DriverEvent(driver_id=record.driver_id, at=NOW, kind=QUARANTINE_GAP, detail=gap))
    stream = cli("status", "--json").json["streams"][0]
    assert (stream["malformed"], stream["not_kept"]) == (20, 10)
    assert "(10 not kept)" in " ".join(cli("status").out.split())


def test_a_driver_whose_process_lives_is_running(cli: CommandLine, living: ProcessIdentity) -> None:
    cli.project.stream("a")
    driver(cli, process=living)
    answer = cli("status", "a", "--json")
    assert answer.code == Exit.OK
    stream = answer.json["streams"][0]
    assert (stream["state"], stream["pid"]) == ("running", living.pid)
    assert stream["since"] == pytest.approx(NOW - 50)


def test_a_pid_that_another_program_has_now_is_no_running_driver(cli: CommandLine, living: ProcessIdentity) -> None:
    cli.project.stream("a")
    driver(cli, process=ProcessIdentity(host=living.host, pid=living.pid, started_at=living.started_at - 1))
    answer = cli("status", "--json")
    assert answer.json["streams"][0]["state"] == "down"
    assert answer.code == Exit.BAD


def test_a_driver_of_another_host_whose_lease_has_expired_is_reported_as_not_known(cli: CommandLine) -> None:
    """The store may have been away, and the driver not have found it back yet: one look is no reason to end its run."""
    cli.project.stream("a")
    elsewhere = ProcessIdentity(host="elsewhere/boot/1", pid=7, started_at=1)
    record = driver(cli, process=elsewhere)
    with cli.store() as store:
        claim = store.leases.acquire(record.checkpoint, stream="a", holder=record.driver_id, ttl=30, now=NOW - 60)
        store.leases.bind(claim, elsewhere, ttl=30, now=NOW - 40)
    answer = cli("status", "--json")
    stream = answer.json["streams"][0]
    assert (stream["state"], stream["last_exit"], answer.code) == ("unseen", None, Exit.BAD)
    assert "did not renew its lease" in stream["problem"]
    with cli.store() as store:
        lease = store.leases.current(record.checkpoint)
        assert lease is not None
        assert lease.released_at is None


def test_the_standby_of_a_driver_is_shown_until_the_driver_ends(cli: CommandLine, living: ProcessIdentity) -> None:
    cli.project.stream("a")
    record = driver(cli, process=living)

    def shown(state: StandbyState | None, at: float) -> object:
        with cli.store() as store:
            store.drivers.event(standby_event(record.driver_id, state, at))
        return cli("status", "--json").json["streams"][0]["standby"]

    assert shown(StandbyState(driver_id="a-2", ready=False, pid=None, since=0.0), NOW - 5) == "starting"
    assert shown(StandbyState(driver_id="a-2", ready=True, pid=9, since=0.0), NOW - 4) == "ready"
    assert "ready" in cli("status", "--wide").out
    assert shown(None, NOW - 3) == ""


def test_a_driver_whose_jvm_does_not_answer_is_unresponsive_until_it_does(
    cli: CommandLine, living: ProcessIdentity
) -> None:
    cli.project.stream("a")
    record = driver(cli, process=living)

    def say(kind: str, at: float) -> None:
        event = DriverEvent(driver_id=record.driver_id, at=at, kind=kind, detail={"silent_for": "15.0"})
        with cli.store() as store:
            store.drivers.event(event)

    say("jvm_silent", NOW - 5)
    answer = cli("status", "--json")
    stream = answer.json["streams"][0]
    assert (stream["state"], answer.code) == ("unresponsive", Exit.BAD)
    assert "its JVM has not answered for" in stream["problem"]
    say("jvm_answers", NOW - 1)
    assert cli("status", "--json").json["streams"][0]["state"] == "running"


def test_lost_executors_are_counted_beside_the_living(cli: CommandLine, living: ProcessIdentity) -> None:
    cli.project.stream("a")
    driver(cli, process=living)
    assert cli("status", "a", "--json").json["streams"][0]["executors"] is None
    with cli.store() as store:
        found = [
            SparkExecutor(id="0", host="h:1", active=False, reason="exited with 137"),
            SparkExecutor(id="1", host="h:2", active=True),
        ]
        store.measurements.add(measurements(found, {}, stream="a", limit=1, at=time.time() - 10))
    stream = cli("status", "a", "--json").json["streams"][0]
    assert (stream["executors"], stream["executors_lost"]) == (1, 1)
    assert "executors: 1 alive, 1 lost by this driver" in cli("status").out


def test_the_number_of_executors_does_not_outlive_a_read_that_failed(cli: CommandLine, living: ProcessIdentity) -> None:
    """And is known again with the next one that succeeds."""
    cli.project.stream("a")
    driver(cli, process=living)
    now = time.time()
    for ago, found, known in ((30, True, 1), (20, False, None), (10, True, 1)):
        with cli.store() as store:
            store.measurements.add(_read(now - ago) if found else [_unread(now - ago)])
        assert cli("status", "a", "--json").json["streams"][0]["executors"] == known


def _read(at: float) -> Iterable[Measurement]:
    return measurements([SparkExecutor(id="0", host="h:1", active=True)], {}, stream="a", limit=1, at=at)


def _unread(at: float) -> Measurement:
    return Measurement(stream="a", name=UNREAD, at=at, value=1.0, unit="reads", source="Spark's REST API")


@pytest.mark.parametrize(
    ("kind", "desired", "state", "code"),
    [
        (ExitKind.FAILED, None, "down", Exit.BAD),
        (ExitKind.KILLED, Desired.RUNNING, "down", Exit.BAD),
        (ExitKind.FENCED, None, "down", Exit.BAD),
        (ExitKind.STOPPED, Desired.STOPPED, "stopped", Exit.OK),
        (ExitKind.FAILED, Desired.STOPPED, "stopped", Exit.OK),
        (ExitKind.COMPLETED, None, "completed", Exit.OK),
    ],
)
def test_the_last_exit_and_the_desired_state_make_the_state(
    cli: CommandLine, kind: ExitKind, desired: Desired | None, state: str, code: Exit
) -> None:
    cli.project.stream("a")
    driver(cli, ended(kind))
    if desired is not None:
        with cli.store() as store:
            store.stops.set_desired(
                DesiredState(stream="a", desired=desired, changed_by="me", reason="so", changed_at=NOW)
            )
    answer = cli("status", "--json")
    assert answer.json["streams"][0]["state"] == state
    assert answer.code == code
    assert "because of this" in cli("status").out


def test_a_crash_that_a_restart_cured_and_the_rate_of_rows_are_shown(cli: CommandLine, living: ProcessIdentity) -> None:
    """The driver of before was killed three minutes before it. Another one, stopped on request, is no crash."""
    cli.project.stream("a")
    now = time.time()
    running = driver(cli, process=living)
    with cli.store() as store:
        for number, kind in enumerate((ExitKind.STOPPED, ExitKind.KILLED)):
            launched_at = running.launched_at - 300 + number
            before = replace(running, driver_id=f"a-{number}", launched_at=launched_at, process=None)
            store.drivers.launched(before)
            store.drivers.exited(before.driver_id, replace(ended(kind), ended_at=launched_at + 120))
        for number in range(10):
            store.batches.upsert_progress("a", report(number, at=now - 100 + 10 * number, rows=30))
    stream = cli("status", "--json").json["streams"][0]
    assert (stream["restarts"], stream["cured"]["exit"]["kind"]) == (1, "killed")
    assert stream["cured"]["restarted_at"] == running.launched_at
    assert stream["rows_in_per_second"] == pytest.approx(3.0, rel=0.2)
    assert "last exit: killed" in cli("status").out


def test_a_broken_file_shows_and_is_trouble(cli: CommandLine) -> None:
    cli.project.stream("a", "color: red\n")
    answer = cli("status")
    assert answer.code == Exit.BAD
    assert "broken" in answer.out
    assert "color" in answer.out


def test_a_broken_file_does_not_hide_that_its_driver_lives(cli: CommandLine, living: ProcessIdentity) -> None:
    cli.project.stream("a", "color: red\n")
    driver(cli, process=living)
    assert cli("status", "--json").json["streams"][0]["state"] == "running"


def test_a_critical_verdict_is_trouble_and_names_its_check(cli: CommandLine, living: ProcessIdentity) -> None:
    cli.project.stream("a")
    driver(cli, process=living)
    with cli.store() as store:
        store.verdicts.save(
            [
                Verdict(
                    stream="a",
                    check="state_size",
                    status=Status.CRITICAL,
                    at=time.time(),
                    value=6e9,
                    reason="too large",
                ),
                Verdict(stream="a", check="memory_usage", status=Status.OK, at=time.time()),
            ]
        )
    answer = cli("status")
    assert answer.code == Exit.BAD
    assert "CRITICAL" in answer.out
    assert "state_size: too large" in answer.out
    assert "6.0 GB" in answer.out


@pytest.mark.parametrize(("old", "shown"), [(0, "OK"), (170, "OK"), (190, "UNKNOWN 3m")])
def test_a_good_verdict_is_not_shown_for_ever(
    cli: CommandLine, living: ProcessIdentity, old: float, shown: str
) -> None:
    """Nothing has judged the stream for three intervals: its health DAG is paused, and no person ran `check`."""
    cli.project.stream("a")
    driver(cli, process=living)
    with cli.store() as store:
        store.verdicts.save([Verdict(stream="a", check="memory_usage", status=Status.OK, at=time.time() - old)])
    answer = cli("status")
    assert answer.code == Exit.OK
    assert shown in " ".join(answer.out.split())
    assert cli("status", "--json").json["streams"][0]["health"] == shown.partition(" ")[0]


def test_an_old_alarm_is_still_one(cli: CommandLine, living: ProcessIdentity) -> None:
    """Negative control: nothing shows that it is over."""
    cli.project.stream("a")
    driver(cli, process=living)
    with cli.store() as store:
        store.verdicts.save([Verdict(stream="a", check="memory_usage", status=Status.CRITICAL, at=time.time() - 9_000)])
    assert cli("status").code == Exit.BAD


def test_a_verdict_of_a_check_that_is_gone_is_not_shown(cli: CommandLine, living: ProcessIdentity) -> None:
    """A release without the check judges the stream; the last word of the one before it was CRITICAL."""
    cli.project.stream("a")
    driver(cli, process=living)
    with cli.store() as store:
        gone = Verdict(stream="a", check="retired", status=Status.CRITICAL, at=time.time() - 9_000)
        store.verdicts.save([gone, Verdict(stream="a", check="memory_usage", status=Status.OK, at=time.time())])
    assert cli("status", "--json").json["streams"][0]["health"] == "OK"
