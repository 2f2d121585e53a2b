"""A broker or a database that is away: a blip, an incident with its name, and what only looks like either."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.health.check import Check
from streamwarden.health.checks.batches import progress_stalled
from streamwarden.health.checks.services import broker_unreachable, database_unreachable
from streamwarden.health.evaluate import evaluate
from streamwarden.health.incidents.incident import IncidentPolicy, advance
from streamwarden.health.signals.services import GAP, REMEMBERED, needs, outages
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Answer, Measurement, Service
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import SinkSpec, SourceSpec, StreamSpec, TriggerSpec
from support.streams.health_windows import NOW, driver, ended, judge, log, measured, report, spec, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN
MINUTE = 60.0
ADDRESS = {Service.BROKER: "broker-1:9092", Service.DATABASE: "db-1:5432"}
CHECK_OF = {Service.BROKER: broker_unreachable.CHECK, Service.DATABASE: database_unreachable.CHECK}
SINK = PostgresqlSink(connection="warehouse", table="counts")
TOPIC = KafkaSource(connection="events", topic="events")
NEEDS = {
    Service.BROKER: spec(source=TOPIC, sink=ParquetSink(path="/out")),
    Service.DATABASE: spec(source=FilesSource(path="/in"), sink=SINK),
}
RAN = (driver(0, NOW - 200_000),)
BOTH = pytest.mark.parametrize("service", list(Service))


def answer(service: Service, reached: bool | None, problem: str = "") -> Answer:
    connection = "events" if service is Service.BROKER else "warehouse"
    return Answer(service=service, connection=connection, address=ADDRESS[service], reached=reached, problem=problem)


def kept(service: Service, reached: bool, at: float) -> Measurement:
    return measured(service.measurement, float(reached), at, answer(service, reached).source)


def course(
    service: Service, *looks: bool | None, step: float = MINUTE, before: Verdict | None = None, **changes: Any
) -> list[Verdict]:
    """The verdicts on these looks, `step` seconds apart, the last one at NOW; the measurements of the last 15 minutes
    are kept, and each verdict knows the one before it."""
    found: list[Verdict] = [before] if before is not None else []
    history: list[Measurement] = []
    for number, reached in enumerate(looks):
        at = NOW - step * (len(looks) - 1 - number)
        problem = {True: "", False: "Connection refused", None: "the connection is not known here"}[reached]
        mine = window(
            spec=NEEDS[service],
            now=at,
            measurements=tuple(each for each in history if each.at >= at - 900),
            answers=(answer(service, reached, problem),),
            previous={found[-1].check: found[-1]} if found else {},
            **{"drivers": RAN, **changes},
        )
        found.append(judge(CHECK_OF[service], mine))
        if reached is not None:
            history.append(kept(service, reached, at))
    return found


def now(service: Service, *looks: bool | None, **changes: Any) -> Verdict:
    return course(service, *looks, **changes)[-1]


@BOTH
@pytest.mark.parametrize(
    ("failed", "status", "value"),
    [
        (0, OK, 0),
        (1, UNKNOWN, 0),
        (3, UNKNOWN, 2 * MINUTE),
        (4, WARNING, 3 * MINUTE),
        (6, WARNING, 5 * MINUTE),
        (11, WARNING, 10 * MINUTE),
        (12, CRITICAL, 11 * MINUTE),
        (40, CRITICAL, 39 * MINUTE),
    ],
)
def test_an_outage_is_as_long_as_the_attempts_that_failed_in_a_row(
    service: Service, failed: int, status: Status, value: float
) -> None:
    """One attempt a minute: three minutes are WARNING, ten too, more is CRITICAL; also beyond the kept measurements."""
    verdict = now(service, True, *[False] * failed)
    assert (verdict.status, verdict.value) == (status, value)
    assert (ADDRESS[service] in verdict.reason) is True


@BOTH
def test_the_reason_names_the_service_its_address_its_connection_and_the_error(service: Service) -> None:
    verdict = now(service, True, *[False] * 6)
    name = "events" if service is Service.BROKER else "warehouse"
    words = f"the {service} {ADDRESS[service]} (connection {name}) has not answered for 5m: Connection refused"
    assert words in verdict.reason
    assert verdict.check == f"{service}_unreachable"
    assert verdict.advice


@BOTH
def test_an_outage_of_five_minutes_is_one_incident_that_ends(service: Service) -> None:
    """From the first failed attempt to the third good one after it."""
    known: dict[str, Any] = {}
    opened = resolved = 0
    for number, verdict in enumerate(course(service, True, *[False] * 6, *[True] * 4)):
        changes = advance(known.values(), [verdict], NOW + number, IncidentPolicy(), lambda: "one")
        known |= {each.incident_id: each for each in changes.all}
        opened, resolved = opened + len(changes.opened), resolved + len(changes.resolved)
    assert (opened, resolved) == (1, 1)
    assert known["one"].check == f"{service}_unreachable"


@BOTH
def test_blips_never_alarm(service: Service) -> None:
    """Negative control: every third attempt succeeds, for an hour; two minutes is the longest row."""
    assert {each.status for each in course(service, *[False, False, True] * 20)} == {OK, UNKNOWN}


@BOTH
def test_attempts_with_a_long_silence_between_them_make_no_outage(service: Service) -> None:
    """Two looks, more than an hour apart, say nothing of the time between them; those of a slow scheduler do."""
    assert now(service, False, False, step=GAP + MINUTE).value == 0
    assert now(service, False, False, step=GAP - MINUTE).value == GAP - MINUTE


@BOTH
def test_a_success_that_is_older_than_the_measurements_is_not_forgotten(service: Service) -> None:
    """A look each twenty minutes: none of them finds the one before it among the measurements of fifteen."""
    assert now(service, False, True, False, step=20 * MINUTE).value == 0
    assert now(service, True, False, False, step=20 * MINUTE).value == 20 * MINUTE
    verdicts = course(service, False, True, False, True, True, step=20 * MINUTE)
    assert [(since, until) for _, since, until in verdicts[-1].evidence["outages"]] == [  # type: ignore[attr-defined]
        (NOW - 80 * MINUTE, NOW - 80 * MINUTE),
        (NOW - 40 * MINUTE, NOW - 40 * MINUTE),
    ]


@BOTH
def test_a_driver_that_commits_reaches_the_service(service: Service) -> None:
    """The checks run on a host that cannot reach it. Negative control: the last commit came before the outage."""
    served = now(service, True, *[False] * 30, log=log(9, 9, committed_at=NOW - 20))
    assert (served.status, served.value) == (UNKNOWN, 20)
    assert "The driver has committed a batch since the first failed attempt" in served.reason
    hung = now(service, True, *[False] * 30, log=log(10, 9, committed_at=NOW - 40 * MINUTE))
    assert hung.status is CRITICAL
    assert "has committed a batch" not in hung.reason


@BOTH
def test_what_was_not_asked_is_unknown(service: Service) -> None:
    """The connection is not known here, and nothing says that it once was; the outage before it is not forgotten."""
    verdicts = course(service, True, *[False] * 6, None, False)
    assert [each.status for each in verdicts[-3:]] == [WARNING, UNKNOWN, WARNING]
    assert "the connection is not known here" in verdicts[-2].reason
    assert verdicts[-1].value == 7 * MINUTE
    assert judge(CHECK_OF[service], window(spec=NEEDS[service], log=log(3, 3))).status is UNKNOWN


@BOTH
def test_a_stream_that_is_stopped_needs_no_service(service: Service) -> None:
    gone = driver(1, NOW - 9_000, exit=ended(ExitKind.STOPPED, NOW - 8_000))
    verdict = now(service, *[False] * 20, drivers=(gone,), driver_alive=False)
    assert (verdict.status, verdict.value) == (OK, 0)
    dead = replace(gone, exit=ended(ExitKind.FAILED, NOW - 8_000))
    assert now(service, *[False] * 20, drivers=(dead,), driver_alive=False).status is CRITICAL


@BOTH
@pytest.mark.parametrize("logs", [None, log(None, None)], ids=["no checkpoint was read", "an empty checkpoint"])
def test_a_stream_that_never_ran_has_no_outage(service: Service, logs: LogPosition | None) -> None:
    """Negative controls: one that runs, and one whose checkpoint shows that it ran before the store knew of it."""
    looks = [True, *[False] * 20]
    never = now(service, *looks, drivers=(), log=logs)
    assert (never.status, never.reason) == (UNKNOWN, "the stream has never run")
    unwanted = now(service, *looks, drivers=(), log=logs, wanted_stopped=True)
    assert (unwanted.status, unwanted.value) == (OK, 0)
    assert now(service, *looks, log=logs).status is CRITICAL
    assert now(service, *looks, drivers=(), log=log(9, 9)).status is CRITICAL


@BOTH
def test_drivers_that_end_during_the_outage_are_counted(service: Service) -> None:
    drivers = tuple(driver(n, NOW - 700 + n, exit=ended(ExitKind.FAILED, NOW - 600 + 60 * n)) for n in range(3))
    verdict = now(service, True, *[False] * 9, drivers=drivers)
    assert verdict.evidence["drivers_ended"] == ["driver-2"]
    assert "Since then 1 driver of the stream ended" in verdict.reason


@BOTH
def test_a_stream_without_such_a_service_is_well_once_it_ran(service: Service) -> None:
    other = NEEDS[Service.DATABASE if service is Service.BROKER else Service.BROKER]
    assert judge(CHECK_OF[service], window(spec=other, log=log(3, 3))).status is OK
    assert judge(CHECK_OF[service], window(spec=other, log=log(None, None))).status is UNKNOWN
    script = spec(source=SourceSpec(), sink=SinkSpec())
    assert judge(CHECK_OF[service], window(spec=script, log=log(3, 3))).status is UNKNOWN


def test_of_two_brokers_the_one_that_is_away_counts() -> None:
    """It reads from one and writes to the other, which has not answered for five minutes."""
    copies = spec(source=TOPIC, sink=KafkaSink(connection="archive", topic="copy"))
    there = answer(Service.BROKER, True)
    gone = replace(there, connection="archive", address="archive:9092", reached=False)
    history = tuple(
        measured(Service.BROKER.measurement, value, NOW - MINUTE * n, each.source)
        for n in range(1, 6)
        for each, value in ((there, 1.0), (gone, 0.0))
    )
    asked = window(spec=copies, measurements=history, drivers=RAN)
    verdict = judge(broker_unreachable.CHECK, replace(asked, answers=(there, gone)))
    assert (verdict.status, verdict.evidence["connection"]) == (WARNING, "archive")
    alone = judge(broker_unreachable.CHECK, replace(asked, answers=(there,)))
    assert alone.status is UNKNOWN, "one of two was asked"


@BOTH
def test_an_outage_is_remembered_for_a_day(service: Service) -> None:
    """The measurements of a window are those of 15 minutes; batches of the last hours are judged by it all the same."""
    verdict = now(service, True, *[False] * 6, True)
    later = window(spec=NEEDS[service], now=NOW + 7_200, previous={verdict.check: verdict})
    (outage,) = outages(later, service)
    assert (outage.since, outage.until) == (NOW - 6 * MINUTE, NOW - MINUTE)
    assert outages(replace(later, now=NOW + REMEMBERED), service) == ()


@BOTH
def test_evidence_that_another_version_wrote_is_not_believed(service: Service) -> None:
    odd = replace(now(service, True, False), evidence={"outages": [[1.0], "x"]})
    assert now(service, False, before=odd).value == 0


def test_what_a_stream_needs_is_in_its_file() -> None:
    def named(of: StreamSpec) -> list[tuple[str, str]]:
        return [(each.service.value, each.connection) for each in needs(of)]

    assert named(spec(source=TOPIC, sink=SINK)) == [("broker", "events"), ("database", "warehouse")]
    same = spec(source=TOPIC, sink=KafkaSink(connection="events", topic="copy"))
    assert named(same) == [("broker", "events")]
    assert named(spec(source=FilesSource(path="/in"), sink=ParquetSink(path="/out"))) == []


def test_checks_are_named_after_the_unreachable_service() -> None:
    checks: list[Check] = list(CHECK_OF.values())
    assert [each.name for each in checks] == ["broker_unreachable", "database_unreachable"]


@BOTH
@pytest.mark.parametrize(
    ("reached", "waited", "alive", "expected"),
    [
        (False, 90.0, True, [WARNING, WARNING]),  # one cause with one consequence, in the first minutes of an outage
        (False, 30.0, True, [UNKNOWN, OK]),
        (False, 90.0, False, [UNKNOWN, WARNING]),  # without a driver, the outage need not be the cause
        (None, 90.0, True, [UNKNOWN, WARNING]),
        (True, 90.0, True, [OK, WARNING]),
    ],
)
def test_a_stream_that_stands_still_confirms_an_outage_at_once(
    service: Service, reached: bool | None, waited: float, alive: bool, expected: list[Status]
) -> None:
    gone = () if alive else (driver(1, NOW - 900, exit=ended(ExitKind.KILLED, NOW - waited)),)
    of = window(
        [report(n, NOW - 300 + 5 * n, top={"batchDuration": 1_000}) for n in range(20)],
        spec=replace(NEEDS[service], trigger=TriggerSpec(processing_time=5.0)),
        answers=(answer(service, reached, "Connection refused"),),
        drivers=(*RAN, *gone),
        driver_alive=alive,
        log=log(20, 19, planned_at=NOW - waited, committed_at=NOW - waited),
    )
    found = evaluate(of, DEFAULTS, [CHECK_OF[service], progress_stalled.CHECK])
    assert [each.status for each in found] == expected
    if expected == [WARNING, WARNING]:
        assert found[0].reason.endswith("the stream already stands still")
        assert "Bring the" in found[0].advice
