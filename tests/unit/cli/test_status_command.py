"""`status`, `incidents`, `check`, `stop`, `logs`: what the store knows, reported correctly."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters import processes
from streamwarden.cli.exits import Exit
from streamwarden.health.delivery import Delivery
from streamwarden.health.incident import Incident
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.folder import QUARANTINE_GAP
from streamwarden.lifecycle.stop import Desired, DesiredState
from streamwarden.spark.executor_metrics import SparkExecutor
from streamwarden.spark.executors import measurements
from streamwarden.stream import TriggerSpec
from support.command_line import CommandLine
from support.inbox import Inbox
from support.queries import query_record
from support.reports import report

NOW = time.time()


def driver(cli: CommandLine, exit: ExitRecord | None = None, process: ProcessIdentity | None = None) -> DriverRecord:
    """A driver of stream `a`, recorded in the store."""
    driver_id = "a-20260101T000000-00000001"
    record = DriverRecord(
        driver_id=driver_id,
        stream="a",
        checkpoint=str(cli.project.data / "checkpoints/a"),
        token=1,
        folder=str(cli.project.data / "drivers/a" / driver_id),
        launched_by="test",
        launched_at=NOW - 60,
    )
    with cli.store() as store:
        store.drivers.launched(record)
        if process is not None:
            store.drivers.bound(driver_id, process)
            store.drivers.started(driver_id, "query", "run", NOW - 50)
        if exit is not None:
            store.drivers.exited(driver_id, exit)
    return record


def ended(kind: ExitKind) -> ExitRecord:
    return ExitRecord(kind=kind, ended_at=NOW - 10, error_class="SomeError", message="because of this")


@pytest.fixture
def living() -> Iterator[ProcessIdentity]:
    """Identity of a process that lives as long as the test."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        identity = processes.identity(child.pid)
        assert identity is not None
        yield identity
    finally:
        child.kill()
        child.wait()


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
    assert (stream["stream"], stream["state"], stream["worst"]) == ("a", "new", "UNKNOWN")


def test_malformed_rows_are_reported_beside_the_rows(cli: CommandLine) -> None:
    cli.project.stream("a")
    counted = {
        "input": {"read": 600, "malformed": 7},
        "input_1": {"read": 5, "malformed": 2},
        "other": {"malformed": 9},
    }
    with cli.store() as store:
        for number in range(2):
            store.batches.upsert_progress("a", report(number, observedMetrics=counted))
    assert cli("status", "--json").json["streams"][0]["malformed"] == 2 * 9
    assert "(18 malformed)" in cli("status").out.replace("\n", " ")


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
    assert "(20 malformed, 10 of them not kept)" in " ".join(cli("status").out.split())


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
        store.measurements.add(measurements(found, stream="a", limit=1, at=time.time()))
    stream = cli("status", "a", "--json").json["streams"][0]
    assert (stream["executors"], stream["executors_lost"]) == (1, 1)
    assert "executors: 1 alive, 1 lost by this driver" in cli("status").out


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
    assert stream["rows_per_second"] == pytest.approx(3.0, rel=0.2)
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
    assert cli("status", "--json").json["streams"][0]["worst"] == shown.partition(" ")[0]


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
    assert cli("status", "--json").json["streams"][0]["worst"] == "OK"


def incident(status: Status, resolved_at: float | None = None) -> Incident:
    return Incident(
        incident_id="i1",
        stream="a",
        check="state_size",
        status=status,
        opened_at=NOW - 100,
        updated_at=NOW,
        reason="too big",
        advice="tighten the watermark",
        peak=status,
        resolved_at=resolved_at,
    )


@pytest.mark.parametrize(("status", "code"), [(Status.WARNING, Exit.OK), (Status.CRITICAL, Exit.BAD)])
def test_open_incidents_are_shown_with_their_advice(cli: CommandLine, status: Status, code: Exit) -> None:
    cli.project.stream("a")
    with cli.store() as store:
        store.incidents.save(incident(status))
    answer = cli("incidents")
    assert answer.code == code
    assert "too big" in answer.out
    assert "tighten the watermark" in answer.out
    assert cli("status", "--json").json["streams"][0]["incidents"] == 1


def test_resolved_incidents_are_history(cli: CommandLine) -> None:
    cli.project.stream("a")
    with cli.store() as store:
        store.incidents.save(incident(Status.CRITICAL, resolved_at=NOW))
    assert cli("incidents").out.strip() == "No open incidents."
    everything = cli("incidents", "--all")
    assert everything.code == Exit.OK
    assert "resolved" in everything.out


def test_checks_that_know_nothing_are_4_and_never_ok(cli: CommandLine) -> None:
    cli.project.stream("a")
    (cli.project.data / "checkpoints").mkdir(parents=True)
    answer = cli("check", "--json")
    verdicts = answer.json["streams"]["a"]["verdicts"]
    assert len(verdicts) >= 5
    assert not [each for each in verdicts if each["status"] == "OK" and each["check"] != "backlog"]
    path = cli.project.root / "config/streams/a.yaml"
    path.write_text(path.read_text().replace("{path: input/a}", "{path: input/a/*}"))  # no folder to count files in
    assert cli("check").code == Exit.UNDECIDED


def test_a_check_of_a_failed_driver_says_what_is_wrong_and_keeps_the_incident(cli: CommandLine) -> None:
    cli.project.stream("a")
    incurable = ExitRecord(
        kind=ExitKind.FAILED, ended_at=NOW, error_class="SCHEMA", message="schema changed", curable=False
    )
    driver(cli, incurable)
    answer = cli("check")
    assert answer.code == Exit.BAD
    assert "schema changed" in answer.out
    assert cli("incidents").code == Exit.BAD


def test_notifying_without_a_url_is_a_mistake_of_configuration(cli: CommandLine) -> None:
    cli.project.stream("a")
    answer = cli("check", "--notify")
    assert answer.code == Exit.USAGE
    assert "STREAMWARDEN_NOTIFY_URLS" in answer.err


@pytest.mark.parametrize(("interval", "minutes", "sent"), [("30m", 40, 1), ("2h", 70, 0)])
def test_an_open_incident_is_sent_again_after_the_configured_interval(
    cli: CommandLine, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, interval: str, minutes: float, sent: int
) -> None:
    """`resend_interval` of config/notifications.yaml counts on the command line as in the health DAG."""
    cli.project.stream("a")
    (cli.project.root / "config/notifications.yaml").write_text(f"resend_interval: {interval}\n")
    with cli.store() as store:
        open_one = incident(Status.CRITICAL)
        store.incidents.save(open_one)
        new = Delivery(subject=open_one.incident_id, channel="json-1")
        store.deliveries.claim(new, Status.CRITICAL, time.time() - 60 * minutes)
    monkeypatch.setenv("STREAMWARDEN_NOTIFY_URLS", inbox.url)
    cli("check", "--notify")
    assert [message["title"] for message in inbox.messages] == ["CRITICAL: a: state size"] * sent


def test_stopping_a_stream_without_a_driver_is_remembered(cli: CommandLine) -> None:
    cli.project.stream("a")
    answer = cli("stop", "a", "--reason", "maintenance")
    assert answer.code == Exit.OK
    with cli.store() as store:
        desired = store.stops.desired("a")
    assert desired is not None
    assert (desired.desired, desired.reason) == (Desired.STOPPED, "maintenance")
    assert "command line" in desired.changed_by


def test_a_stream_with_a_broken_file_can_still_be_stopped(cli: CommandLine) -> None:
    cli.project.stream("a", "color: red\n")
    answer = cli("stop", "a")
    assert answer.code == Exit.OK
    assert "batch boundary" not in answer.out, "without a driver there is no batch to wait for"


def test_a_stream_with_a_broken_file_cannot_be_started(cli: CommandLine) -> None:
    cli.project.stream("a", "color: red\n")
    answer = cli("start", "a")
    assert answer.code == Exit.USAGE
    assert "color" in answer.err
    assert not (cli.project.data / "drivers").exists()


def test_the_log_of_the_newest_driver_is_shown(cli: CommandLine) -> None:
    cli.project.stream("a")
    assert "has had no driver" in cli("logs", "a").err
    record = driver(cli, ended(ExitKind.FAILED))
    folder = Path(record.folder)
    folder.mkdir(parents=True)
    (folder / "driver.log").write_text("".join(f"line {number} [bold]\n" for number in range(100)))
    answer = cli("logs", "a", "-n", "2")
    assert answer.out == "line 98 [bold]\nline 99 [bold]\n"
    assert cli("logs", "a", "--driver", "a-20260101T000000-ffffffff").code == Exit.USAGE


def test_following_a_log_ends_with_its_driver_and_shows_the_last_line(cli: CommandLine) -> None:
    import io

    from streamwarden.cli.following import follow

    path = Path(cli.project.root) / "driver.log"
    path.write_text("before\n")
    looks = 0

    def over() -> bool:
        nonlocal looks
        looks += 1
        with path.open("a") as log:
            log.write(f"look {looks}\n")
        return looks == 3

    written = io.StringIO()
    follow(path, ended=over, to=written, sleep=lambda seconds: None)
    assert written.getvalue() == "look 1\nlook 2\nlook 3\n"


def test_pruning_tells_what_it_removed(cli: CommandLine) -> None:
    cli.project.stream("a")
    answer = cli("store", "prune", "--keep", "1 h", "--json")
    assert answer.code == Exit.OK
    assert answer.json["batches"] == 0
    assert cli("store", "migrate").code == Exit.OK


def pair(cli: CommandLine, process: ProcessIdentity, **right: Any) -> None:
    """Stream `a` with the queries `left` and `right`, which the driver has started; `right` as given."""
    cli.project.stream("a")
    record = driver(cli, process=process)
    with cli.store() as store:
        for name, changes in {"left": {}, "right": right}.items():
            given = {"driver": record.driver_id, **changes}
            store.queries.started(query_record("a", name, at=NOW - 40, **given))
        store.batches.upsert_progress("a/left", report(0))
        store.batches.upsert_progress("a/left", report(1))
        store.batches.upsert_progress("a/right", report(0))


def states(cli: CommandLine) -> dict[str, str]:
    return {each["stream"]: each["state"] for each in cli("status", "--json").json["streams"]}


def test_each_of_several_queries_has_a_line(cli: CommandLine, living: ProcessIdentity) -> None:
    pair(cli, living)
    answer = cli("status", "--json")
    found = {each["stream"]: each for each in answer.json["streams"]}
    assert answer.code == Exit.OK
    assert {name: each["state"] for name, each in found.items()} == dict.fromkeys(("a", "a/left", "a/right"), "running")
    assert [found[name]["batches"] for name in ("a", "a/left", "a/right")] == [3, 2, 1]
    assert [each["stream"] for each in cli("status", "a/left", "--json").json["streams"]] == ["a/left"]
    assert "a/right" in cli("status").out


@pytest.mark.parametrize(
    ("right", "state", "code"),
    [
        ({"ended_at": NOW - 5, "error": "ValueError: poison"}, "ended", Exit.BAD),
        ({"ended_at": NOW - 5}, "ended", Exit.BAD),
        ({"ended_at": NOW - 5, "trigger": TriggerSpec(processing_time=None, available_now=True)}, "completed", Exit.OK),
        ({"driver": "a-20250101T000000-00000000"}, "starting", Exit.OK),
    ],
)
def test_a_query_that_does_not_run_is_reported_from_its_driver_that_does(
    cli: CommandLine, living: ProcessIdentity, right: dict[str, Any], state: str, code: Exit
) -> None:
    pair(cli, living, **right)
    assert states(cli) == {"a": "running", "a/left": "running", "a/right": state}
    assert cli("status").code == code


def test_the_queries_of_a_driver_that_is_down_are_down(cli: CommandLine, living: ProcessIdentity) -> None:
    pair(cli, ProcessIdentity(host=living.host, pid=living.pid, started_at=living.started_at - 1))
    assert states(cli) == {"a": "down", "a/left": "down", "a/right": "down"}


@pytest.mark.parametrize("command", ["status", "check", "inspect"])
@pytest.mark.parametrize("name", ["a/none", "a/../left", "a/left/x"])
def test_a_query_that_is_not_there_is_reported_with_those_that_are(
    cli: CommandLine, living: ProcessIdentity, command: str, name: str
) -> None:
    pair(cli, living)
    answer = cli(command, name)
    assert answer.code != Exit.OK
    if name == "a/none":
        assert "a/left" in answer.err


def test_incidents_of_a_stream_are_those_of_its_queries_too(cli: CommandLine, living: ProcessIdentity) -> None:
    pair(cli, living)
    with cli.store() as store:
        store.incidents.save(replace(incident(Status.CRITICAL), stream="a/left"))
    for name, count in {"a": 1, "a/left": 1, "a/right": 0}.items():
        assert len(cli("incidents", name, "--json").json["incidents"]) == count
