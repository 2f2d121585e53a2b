"""What people hold back: nothing is sent of what is muted, and an acknowledged incident is not sent again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.health.check_relations import AIRFLOW, EVERYWHERE
from streamwarden.health.incidents.consequences import IncidentGroup
from streamwarden.health.incidents.handling import Handling
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.incident_actions import ActionKind, IncidentAction, acknowledged
from streamwarden.health.incidents.mutes import Mute, lapsed, mute_of, muted
from streamwarden.health.incidents.notification_due import OLD_NEWS, audible, due, notifiable, resolved_since
from streamwarden.health.verdict import Status

OK, WARNING, CRITICAL = Status.OK, Status.WARNING, Status.CRITICAL
HOUR = 3600.0
DOWN = Incident(
    incident_id="i1",
    stream="orders",
    check="driver_down",
    status=WARNING,
    opened_at=0.0,
    updated_at=0.0,
    reason="gone",
)


def sent(incident: Incident, at: float, status: Status) -> Incident:
    return replace(incident, notified_at=at, notified_status=status)


def action(kind: ActionKind, at: float = 100.0, status: Status = WARNING, text: str = "") -> IncidentAction:
    return IncidentAction(incident_id="i1", kind=kind, who="ann", at=at, status=status, text=text)


def mute(starts_at: float = 0.0, until: float = HOUR, *streams: str, **fields: object) -> Mute:
    given = {"mute_id": "m1", "who": "ann", "reason": "holiday", "created_at": starts_at, "starts_at": starts_at}
    return Mute(**{**given, "until": until, "streams": streams, **fields})  # type: ignore[arg-type]


def handled(*actions: IncidentAction, mutes: Sequence[Mute] = ()) -> Handling:
    return Handling(actions={"i1": actions}, mutes=mutes)


def is_due(incident: Incident, now: float, handling: Handling, *consequences: Incident) -> bool:
    groups = audible([IncidentGroup(incident, consequences)], handling.mutes, now)
    return bool(due(groups, now, HOUR, handling))


ACKNOWLEDGED = action(ActionKind.ACKNOWLEDGED)
WITHDRAWN = action(ActionKind.WITHDRAWN, at=200.0)
COMMENT = action(ActionKind.COMMENTED, at=300.0, text="the disk is full")


class TestAcknowledgement:
    @pytest.mark.parametrize(
        ("actions", "expected"),
        [
            ([], None),
            ([COMMENT], None),
            ([ACKNOWLEDGED, COMMENT], ACKNOWLEDGED),
            ([ACKNOWLEDGED, WITHDRAWN], None),
            ([ACKNOWLEDGED, WITHDRAWN, COMMENT, replace(ACKNOWLEDGED, at=400)], replace(ACKNOWLEDGED, at=400)),
        ],
    )
    def test_the_newest_one_counts_until_it_is_withdrawn(
        self, actions: list[IncidentAction], expected: IncidentAction | None
    ) -> None:
        assert acknowledged(actions) == expected

    def test_the_same_status_is_not_sent_again(self) -> None:
        incident = sent(DOWN, 50, WARNING)
        assert is_due(incident, 9 * HOUR, handled()), "without the acknowledgement it is"
        assert not is_due(incident, 9 * HOUR, handled(ACKNOWLEDGED))
        assert is_due(incident, 9 * HOUR, handled(ACKNOWLEDGED, WITHDRAWN))

    def test_a_comment_holds_nothing_back(self) -> None:
        assert is_due(sent(DOWN, 50, WARNING), 9 * HOUR, handled(COMMENT))

    def test_of_another_incident_it_does_not_count(self) -> None:
        other = Handling(actions={"i2": [ACKNOWLEDGED]})
        assert is_due(sent(DOWN, 50, WARNING), 9 * HOUR, other)

    def test_an_escalation_is_sent_and_then_again_until_it_is_acknowledged_too(self) -> None:
        worse = replace(DOWN, status=CRITICAL)
        assert is_due(sent(worse, 50, WARNING), 120, handled(ACKNOWLEDGED))
        escalated = sent(worse, 120, CRITICAL)
        assert not is_due(escalated, 130, handled(ACKNOWLEDGED))
        assert is_due(escalated, 120 + HOUR, handled(ACKNOWLEDGED)), "nobody has acknowledged that it is CRITICAL"
        again = action(ActionKind.ACKNOWLEDGED, at=150.0, status=CRITICAL)
        assert not is_due(escalated, 120 + HOUR, handled(ACKNOWLEDGED, again))

    def test_an_escalation_after_it_is_sent_although_it_had_been_critical_before(self) -> None:
        """CRITICAL was sent, it became better, somebody acknowledged the WARNING, and it is CRITICAL again."""
        swinging = sent(replace(DOWN, status=CRITICAL), 50, CRITICAL)
        assert not is_due(swinging, 120, handled())
        assert is_due(swinging, 120, handled(ACKNOWLEDGED))
        assert not is_due(sent(swinging, 120, CRITICAL), 180, handled(ACKNOWLEDGED)), "once"

    def test_consequence_worse_than_the_acknowledged_incident_is_an_escalation(self) -> None:
        stalled = replace(DOWN, incident_id="i2", check="progress_stalled", status=CRITICAL, consequence_of="i1")
        assert is_due(sent(DOWN, 50, WARNING), 120, handled(ACKNOWLEDGED), stalled)

    def test_another_stream_that_suffers_is_news(self) -> None:
        airflow = sent(replace(DOWN, stream=EVERYWHERE, check=AIRFLOW), 50, WARNING)
        suffers = replace(DOWN, incident_id="i2", stream="clicks", opened_at=150, consequence_of="i1")
        assert is_due(airflow, 160, handled(ACKNOWLEDGED), suffers)
        assert not is_due(airflow, 160, handled(ACKNOWLEDGED), replace(suffers, opened_at=40))

    def test_the_resolution_is_sent(self) -> None:
        ended = replace(sent(DOWN, 50, WARNING), status=OK, resolved_at=500.0)
        assert is_due(ended, 510, handled(ACKNOWLEDGED))

    def test_a_channel_that_never_heard_of_it_hears_once(self) -> None:
        assert is_due(DOWN, 500, handled(ACKNOWLEDGED))
        assert not is_due(sent(DOWN, 500, WARNING), 9 * HOUR, handled(ACKNOWLEDGED))


class TestScope:
    @pytest.mark.parametrize(
        ("streams", "checks", "stream", "check", "expected"),
        [
            (("orders",), (), "orders", "backlog", True),
            (("orders",), (), "orders/late", "backlog", True),
            (("orders",), (), "orders_2", "backlog", False),
            (("orders/late",), (), "orders/late", "backlog", True),
            (("orders/late",), (), "orders", "driver_down", False),
            (("orders",), ("backlog",), "orders", "backlog", True),
            (("orders",), ("backlog",), "orders/late", "backlog", True),
            (("orders",), ("backlog",), "orders", "driver_down", False),
            (("orders",), ("backlog",), "orders", None, False),
            (("orders",), (), "orders", None, True),
            (("orders", "clicks"), (), "clicks", "backlog", True),
            ((), (), EVERYWHERE, AIRFLOW, True),
            ((), (), "orders", None, True),
            (("orders",), (), EVERYWHERE, AIRFLOW, False),
        ],
    )
    def test_what_a_mute_covers(
        self, streams: tuple[str, ...], checks: tuple[str, ...], stream: str, check: str | None, expected: bool
    ) -> None:
        assert mute(0, HOUR, *streams, checks=checks).covers(stream, check) is expected

    @pytest.mark.parametrize(("at", "expected"), [(99, False), (100, True), (199, True), (200, False)])
    def test_it_counts_from_its_beginning_to_its_end(self, at: float, expected: bool) -> None:
        assert (muted(DOWN, [mute(100, 200, "orders")], at) is not None) is expected

    def test_the_one_that_lasts_longest_is_shown(self) -> None:
        short, long = mute(0, 100, "orders"), mute(0, 200, mute_id="m2")
        assert mute_of("orders", [short, long], 50) == long

    def test_one_that_was_ended_early_is_over_and_a_plan_that_was_dropped_never_was(self) -> None:
        ended = mute(0, HOUR, "orders", ended_at=100.0)
        assert ended.in_force(99)
        assert not ended.in_force(100)
        assert lapsed(DOWN, [ended], 50, 120) == ended
        dropped = mute(1000, HOUR, "orders", ended_at=100.0)
        assert not any(dropped.in_force(at) for at in (100.0, 1000.0, 2000.0))
        assert lapsed(DOWN, [dropped], 0, 9 * HOUR) is None

    @pytest.mark.parametrize(
        ("given", "scope"),
        [
            (mute(0, 1), "the whole fleet"),
            (mute(0, 1, "orders", checks=("backlog", "topic_lag")), "orders: backlog, topic_lag"),
            (mute(0, 1, "clicks", "orders", tag="nightly"), "clicks, orders (tag nightly)"),
        ],
    )
    def test_mute_names_its_scope(self, given: Mute, scope: str) -> None:
        assert given.scope == scope


class TestMuted:
    MUTE = mute(0, HOUR, "orders")

    def test_nothing_is_sent_neither_news_nor_escalation_nor_resolution(self) -> None:
        escalated = sent(replace(DOWN, status=CRITICAL), 10, WARNING)
        ended = sent(replace(DOWN, status=OK, resolved_at=50.0), 10, WARNING)
        for each in (DOWN, escalated, ended):
            assert is_due(each, 60, handled()), "without the mute it is"
            assert not is_due(each, 60, handled(mutes=[self.MUTE]))

    def test_other_streams_alarm_as_ever(self) -> None:
        assert is_due(replace(DOWN, stream="clicks"), 60, handled(mutes=[self.MUTE]))

    def test_what_is_open_when_it_ends_is_sent_then(self) -> None:
        """Also if it was sent a moment before the mute, long before the resend interval is over."""
        mutes = [self.MUTE]
        assert is_due(DOWN, HOUR, handled(mutes=mutes))
        before = sent(DOWN, HOUR - 60, WARNING)
        assert not is_due(before, HOUR - 1, handled(mutes=mutes))
        assert is_due(before, HOUR, handled(mutes=mutes))
        assert not is_due(sent(DOWN, HOUR, WARNING), HOUR + 60, handled(mutes=mutes)), "once"

    def test_what_somebody_acknowledged_meanwhile_is_not_repeated_when_it_ends(self) -> None:
        assert not is_due(sent(DOWN, 10, WARNING), HOUR, handled(ACKNOWLEDGED, mutes=[self.MUTE]))

    def test_a_muted_consequence_is_neither_listed_nor_an_escalation(self) -> None:
        """The check of one query is muted; the driver, which all queries share, is not."""
        lag = replace(DOWN, incident_id="i2", stream="orders/late", check="topic_lag", status=CRITICAL)
        mutes = [mute(0, HOUR, "orders/late")]
        (group,) = audible([IncidentGroup(DOWN, (replace(lag, consequence_of="i1"),))], mutes, 60)
        assert group == IncidentGroup(DOWN)
        assert not is_due(sent(DOWN, 10, WARNING), 60, handled(mutes=mutes), lag)
        assert is_due(sent(DOWN, 10, WARNING), 60, handled(), lag), "without the mute it is one"

    def test_a_muted_stream_that_suffers_from_airflow_hides_no_other(self) -> None:
        airflow = sent(replace(DOWN, stream=EVERYWHERE, check=AIRFLOW), 10, WARNING)
        mine = replace(DOWN, incident_id="i2", opened_at=20, consequence_of="i1")
        theirs = replace(mine, incident_id="i3", stream="clicks")
        assert not is_due(airflow, 60, handled(mutes=[self.MUTE]), mine)
        assert is_due(airflow, 60, handled(mutes=[self.MUTE]), mine, theirs)


@dataclass
class Recorded:
    """A repository of incidents, as a store has them."""

    incidents: list[Incident] = field(default_factory=list)

    def open(self, stream: str | None = None) -> Sequence[Incident]:
        return [each for each in self.incidents if each.resolved_at is None and stream in (None, each.stream)]

    def alarming(self) -> Sequence[Incident]:
        return self.open()

    def ended(self, since: float) -> Sequence[Incident]:
        return [each for each in self.incidents if each.resolved_at is not None and each.resolved_at >= since]

    def consequences(self, incident_id: str) -> Sequence[Incident]:
        return [each for each in self.incidents if each.consequence_of == incident_id]

    def save(self, incident: Incident) -> None:
        self.incidents = [each for each in self.incidents if each.incident_id != incident.incident_id] + [incident]


class TestConsequenceThatWasSent:
    """Slow batches were sent; then it turned out that the driver was dying, and both ended."""

    SLOW = replace(DOWN, incident_id="i2", check="batch_duration", consequence_of="i1")

    def test_nothing_is_sent_of_it_while_it_is_listed_under_its_cause(self) -> None:
        (group,) = notifiable(Recorded([DOWN, sent(self.SLOW, 10, WARNING)]), HOUR)
        assert group.root == DOWN

    @pytest.mark.parametrize(("told", "expected"), [(True, 1), (False, 0)])
    def test_its_end_is_sent_to_who_heard_of_it(self, told: bool, expected: int) -> None:
        slow = sent(self.SLOW, 10, WARNING) if told else self.SLOW
        groups = notifiable(Recorded([replace(slow, resolved_at=HOUR, status=OK)]), HOUR)
        assert len(due(groups, HOUR, HOUR)) == expected


class TestEndOfALongMute:
    """It was sent, muted for a week, and resolved on the first day: its end is news when the mute is over."""

    DAY = 86400.0
    ENDED = replace(DOWN, status=OK, resolved_at=DAY)
    WEEK = mute(0.0, 7 * DAY, "orders")

    @pytest.mark.parametrize(("days", "expected"), [(0.5, 0), (6.9, 0), (7.0, 1), (7.9, 1), (8.1, 0)])
    def test_the_end_is_news_for_a_day_after_the_mute(self, days: float, expected: int) -> None:
        found = notifiable(Recorded([self.ENDED]), days * self.DAY, handled(mutes=[self.WEEK]))
        assert len(found) == expected

    def test_that_of_another_stream_is_no_news_after_a_day(self) -> None:
        other = replace(self.ENDED, stream="clicks")
        assert notifiable(Recorded([other]), 7 * self.DAY, handled(mutes=[self.WEEK])) == ()

    def test_how_far_back_ends_are_read(self) -> None:
        now = 7.5 * self.DAY
        assert resolved_since([self.WEEK], now) == 0.0
        assert resolved_since([self.WEEK], 5 * self.DAY) == 5 * self.DAY - OLD_NEWS
        assert resolved_since([], now) == now - OLD_NEWS


MOMENTS = st.integers(0, 600).map(float)
SPANS = st.builds(lambda one, other: (min(one, other), max(one, other) + 1), MOMENTS, MOMENTS)


@given(
    spans=st.lists(SPANS, max_size=4),
    statuses=st.lists(st.sampled_from([WARNING, CRITICAL]), min_size=1, max_size=8),
    acknowledged_at=st.none() | MOMENTS,
    resolved_at=st.none() | MOMENTS,
)
def test_channel_ends_with_the_current_status_whatever_people_do(
    spans: list[tuple[float, float]],
    statuses: list[Status],
    acknowledged_at: float | None,
    resolved_at: float | None,
) -> None:
    """An incident of ten hours, judged each minute. Nothing is sent during a mute. Once no mute is in force the channel
    knows the worst status since the last mute, and each beginning that it heard of has its end."""
    mutes = [mute(60 * start, 60 * until, "orders", mute_id=f"m{at}") for at, (start, until) in enumerate(spans)]
    incident, log = DOWN, Recorded()
    actions: list[IncidentAction] = []
    for minute in range(602):
        now, status = 60.0 * minute, statuses[minute * len(statuses) // 602]
        over = resolved_at is not None and minute >= resolved_at
        now_ended = {"status": OK, "resolved_at": incident.resolved_at or now} if over else {"status": status}
        incident = replace(incident, **now_ended)  # type: ignore[arg-type]
        log.save(incident)
        if acknowledged_at == minute and not over:
            actions.append(action(ActionKind.ACKNOWLEDGED, at=now, status=status))
        handling = handled(*actions, mutes=mutes)
        quiet = muted(incident, mutes, now) is not None
        groups = [replace(each, root=incident) for each in notifiable(log, now, handling)]
        messages = due(groups, now, HOUR, handling)
        assert not (quiet and messages)
        for group in messages:
            incident = sent(incident, now, OK if over else group.status)
        if quiet:
            continue
        if over:
            assert incident.notified_status in (None, OK)
        else:
            assert incident.notified_status is not None
            assert incident.notified_status.rank >= status.rank
