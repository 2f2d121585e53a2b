"""What a person does about an incident counts for what is sent, is recorded, and is refused with the next step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.adapters.store import Store
from streamwarden.errors import ConfigError
from streamwarden.health.check_relations import EVERYWHERE, SUPERVISION
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.incident_actions import ActionKind
from streamwarden.health.incidents.mutes import Mute
from streamwarden.health.incidents.stream_incidents import resolve
from streamwarden.health.verdict import Status
from streamwarden.services.incidents.handling import acknowledge, add_comment, find, handling, withdraw
from streamwarden.services.incidents.muting import current_mutes, mute, mutes_of, plan_maintenance, unmute
from streamwarden.services.notifying.links import Links
from streamwarden.services.notifying.messages import run_message
from streamwarden.services.workspace import Workspace
from support.servers.pagers import Pager, round_of
from support.streams.projects import Project

T0 = 1_800_000_000.0
HOUR = 3600.0
DOWN = Incident(
    incident_id="5f0c11",
    stream="counted",
    check=SUPERVISION,
    status=Status.WARNING,
    opened_at=T0,
    updated_at=T0,
    reason="out of budget",
)
WORSE = replace(DOWN, status=Status.CRITICAL)
STALLED = replace(DOWN, incident_id="77aa", check="progress_stalled", consequence_of="5f0c11")


def muted(space: Workspace, *, until: float = T0 + HOUR, now: float = T0, checks: tuple[str, ...] = ()) -> Mute:
    return mute(
        space.store, space.catalog(), "counted", until=until, who="ann", reason="a new disk", now=now, checks=checks
    )


class TestAcknowledging:
    def test_an_acknowledged_incident_is_not_repeated_and_its_escalation_and_end_name_who(self, store: Store) -> None:
        store.incidents.save(DOWN)
        pager = Pager()
        round_of(store, pager, at=T0)
        acknowledge(store, "5f0c11", who="ann", now=T0 + 60, comment="I look at it")
        for hours in (1, 2, 3):
            round_of(store, pager, at=T0 + hours * HOUR)
        assert pager.titles == ["WARNING: counted: supervision"]
        store.incidents.save(WORSE)
        round_of(store, pager, at=T0 + 4 * HOUR)
        assert pager.titles[1:] == ["CRITICAL: counted: supervision"]
        assert "Acknowledged by ann at 2027-01-15 08:01 UTC, when it was WARNING: I look at it" in pager.bodies[1]
        store.incidents.save(resolve(WORSE, "a driver runs again", T0 + 5 * HOUR))
        round_of(store, pager, at=T0 + 5 * HOUR)
        assert pager.titles[2:] == ["RESOLVED: counted: supervision"]
        assert "Acknowledged by ann" in pager.bodies[2]

    def test_withdrawn_it_is_repeated_again(self, store: Store) -> None:
        store.incidents.save(DOWN)
        pager = Pager()
        round_of(store, pager, at=T0)
        acknowledge(store, "5f0c11", who="ann", now=T0 + 60)
        withdraw(store, "5f0c11", who="ben", now=T0 + 120, comment="my shift is over")
        round_of(store, pager, at=T0 + HOUR)
        assert len(pager.titles) == 2
        assert "Acknowledged" not in pager.bodies[1]

    def test_who_when_and_why_are_kept_for_each(self, store: Store) -> None:
        store.incidents.save(DOWN)
        acknowledge(store, "5f0c11", who="ann", now=T0 + 1, comment=" I look at it ")
        add_comment(store, "5f0c11", who="ben", now=T0 + 2, text="the disk is full")
        withdraw(store, "5f0c11", who="ann", now=T0 + 3)
        log = [(each.kind, each.who, each.at - T0, each.text) for each in store.incident_actions.of("5f0c11")]
        assert log == [
            (ActionKind.ACKNOWLEDGED, "ann", 1, "I look at it"),
            (ActionKind.COMMENTED, "ben", 2, "the disk is full"),
            (ActionKind.WITHDRAWN, "ann", 3, ""),
        ]

    def test_it_covers_the_status_of_the_incident_with_its_consequences(self, store: Store) -> None:
        store.incidents.save(DOWN)
        store.incidents.save(replace(STALLED, status=Status.CRITICAL))
        assert acknowledge(store, "5f0c11", who="ann", now=T0).status is Status.CRITICAL

    def test_a_resolved_incident_takes_comments_and_nothing_else(self, store: Store) -> None:
        store.incidents.save(resolve(DOWN, "a driver runs again", T0 + 9))
        add_comment(store, "5f0c11", who="ann", now=T0 + 10, text="it was the disk")
        with pytest.raises(ConfigError, match="resolved"):
            acknowledge(store, "5f0c11", who="ann", now=T0 + 10)
        with pytest.raises(ConfigError, match="resolved"):
            withdraw(store, "5f0c11", who="ann", now=T0 + 10)

    def test_a_consequence_names_the_cause_to_acknowledge(self, store: Store) -> None:
        for each in (DOWN, STALLED):
            store.incidents.save(each)
        with pytest.raises(ConfigError, match="consequence") as refused:
            acknowledge(store, "77", who="ann", now=T0)
        assert "streamwarden incident ack 5f0c11" in refused.value.next_step

    def test_what_is_not_acknowledged_cannot_be_withdrawn_and_an_empty_comment_says_nothing(self, store: Store) -> None:
        store.incidents.save(DOWN)
        with pytest.raises(ConfigError, match="not acknowledged"):
            withdraw(store, "5f0c11", who="ann", now=T0)
        with pytest.raises(ConfigError, match="empty"):
            add_comment(store, "5f0c11", who="ann", now=T0, text=" ")
        assert store.incident_actions.of("5f0c11") == ()

    def test_the_beginning_of_an_id_is_enough_if_it_is_the_only_one(self, store: Store) -> None:
        store.incidents.save(DOWN)
        store.incidents.save(replace(STALLED, incident_id="5f0c22"))
        assert find(store, "5f0c1") == DOWN
        with pytest.raises(ConfigError, match="several"):
            find(store, "5f0c")
        with pytest.raises(ConfigError, match="there is no incident 'x'"):
            find(store, "x")


class TestMuting:
    def test_muted_stream_sends_nothing_until_the_mute_ends_then_open_incidents(self, space: Workspace) -> None:
        pager = Pager()
        muted(space)
        space.store.incidents.save(DOWN)
        other = replace(DOWN, incident_id="i2", stream="clicks")
        space.store.incidents.save(other)
        for minute in (0, 30, 59):
            round_of(space.store, pager, at=T0 + 60 * minute)
        assert pager.titles == ["WARNING: clicks: supervision"], "the others alarm"
        assert space.store.incidents.open("counted") == (DOWN,), "it is open, and shown"
        round_of(space.store, pager, at=T0 + HOUR)
        assert pager.titles[1:] == ["WARNING: clicks: supervision", "WARNING: counted: supervision"]
        assert "It was muted until 2027-01-15 09:00 UTC, by ann: a new disk" in pager.bodies[2]

    def test_unmuted_early_it_is_sent_then(self, space: Workspace) -> None:
        pager = Pager()
        each = muted(space)
        space.store.incidents.save(DOWN)
        round_of(space.store, pager, at=T0 + 60)
        ended = unmute(space.store, each.mute_id[:8], who="ben", reason="the disk is in", now=T0 + 90)
        assert (ended.ended_by, ended.ended_at, ended.ended_reason) == ("ben", T0 + 90, "the disk is in")
        assert (ended.who, ended.reason, ended.until) == ("ann", "a new disk", T0 + HOUR), "nothing is overwritten"
        round_of(space.store, pager, at=T0 + 120)
        assert pager.titles == ["WARNING: counted: supervision"]
        with pytest.raises(ConfigError, match="no mute"):
            unmute(space.store, each.mute_id, who="ben", reason="again", now=T0 + 130)

    def test_a_muted_check_leaves_the_others(self, space: Workspace) -> None:
        pager = Pager()
        muted(space, checks=(SUPERVISION,))
        space.store.incidents.save(DOWN)
        space.store.incidents.save(replace(DOWN, incident_id="i2", check="state_size"))
        round_of(space.store, pager, at=T0 + 60)
        assert pager.titles == ["WARNING: counted: state size"]

    def test_a_failed_run_of_its_dag_is_not_sent_and_that_of_another_is(self, space: Workspace) -> None:
        pager = Pager()
        muted(space)
        runs = [run_message(f"stream_{name}", "r1", "why", Links(), name) for name in ("counted", "clicks")]
        everywhere = run_message("health", "r1", "why", Links())
        round_of(space.store, pager, at=T0 + 60, events=[*runs, everywhere])
        assert pager.titles == ["FAILED: DAG stream_clicks", "FAILED: DAG health"]

    def test_who_a_mute_is_of(self, space: Workspace) -> None:
        stream, check = muted(space), muted(space, checks=("backlog",))
        plan_maintenance(
            space.store, space.catalog(), starts_at=T0, until=T0 + HOUR, who="ann", reason="x", now=T0, fleet=True
        )
        assert set(mutes_of(space.store, "counted", T0)) == {stream, check}
        assert mutes_of(space.store, "clicks", T0) == ()

    @pytest.mark.parametrize(
        ("name", "checks", "observed"),
        [
            ("countd", (), "no stream 'countd'"),
            ("counted/late", (), "no query 'counted/late'"),
            ("counted", ("backlogs",), "no check 'backlogs'"),
            (EVERYWHERE, (), "concern all streams"),
        ],
    )
    def test_a_name_that_would_mute_nothing_or_everybody_is_refused(
        self, space: Workspace, name: str, checks: tuple[str, ...], observed: str
    ) -> None:
        with pytest.raises(ConfigError, match=observed) as refused:
            mute(space.store, space.catalog(), name, until=T0 + 1, who="a", reason="b", now=T0, checks=checks)
        assert refused.value.next_step
        assert refused.value.expected
        assert current_mutes(space.store, T0) == ()

    def test_a_time_that_has_passed_and_an_empty_reason_are_refused(self, space: Workspace) -> None:
        with pytest.raises(ConfigError, match="ended already"):
            muted(space, until=T0)
        with pytest.raises(ConfigError, match="reason is empty"):
            mute(space.store, space.catalog(), "counted", until=T0 + 1, who="a", reason=" ", now=T0)

    def test_a_drill_of_the_stream_can_be_muted(self, space: Workspace) -> None:
        muted(space, checks=("drill_kill_driver",))
        assert handling(space.store, T0).muted(replace(DOWN, check="drill_kill_driver"), T0) is not None


class TestMaintenance:
    def test_a_window_by_tag_covers_the_streams_that_had_the_tag(self, project: Project, store_url: str) -> None:
        for name, tags in {"a": "[nightly]", "b": "[nightly, gold]", "c": "[]"}.items():
            project.stream(name, f"tags: {tags}\n")
        with Workspace.open(project.root, project.data, store_url, environ={}) as space:
            catalog = space.catalog()
            window = {"starts_at": T0 + 60, "until": T0 + HOUR, "who": "ann", "reason": "update", "now": T0}
            planned = plan_maintenance(space.store, catalog, tag="nightly", **window)  # type: ignore[arg-type]
            assert (planned.streams, planned.planned) == (("a", "b"), True)
            assert handling(space.store, T0).muted(replace(DOWN, stream="a"), T0) is None, "it has not begun"
            assert handling(space.store, T0).muted(replace(DOWN, stream="a"), T0 + 60) == planned
            with pytest.raises(ConfigError, match="no tag 'nigthly'") as refused:
                plan_maintenance(space.store, catalog, tag="nigthly", **window)  # type: ignore[arg-type]
            assert "nightly" in refused.value.next_step
            with pytest.raises(ConfigError, match="not clear"):
                plan_maintenance(space.store, catalog, tag="nightly", fleet=True, **window)  # type: ignore[arg-type]

    def test_one_of_the_whole_fleet_covers_airflow_too(self, space: Workspace) -> None:
        pager = Pager()
        window = {"starts_at": T0, "until": T0 + HOUR, "who": "ann", "reason": "update", "now": T0}
        plan_maintenance(space.store, space.catalog(), fleet=True, **window)  # type: ignore[arg-type]
        space.store.incidents.save(replace(DOWN, stream=EVERYWHERE, check="airflow"))
        round_of(space.store, pager, at=T0 + 60)
        assert pager.titles == []
        round_of(space.store, pager, at=T0 + HOUR)
        assert "It was in maintenance until 2027-01-15 09:00 UTC, by ann: update" in pager.bodies[0]

    def test_a_plan_can_be_dropped_before_it_begins(self, space: Workspace) -> None:
        window = {"starts_at": T0 + 60, "until": T0 + HOUR, "who": "ann", "reason": "update", "now": T0}
        planned = plan_maintenance(space.store, space.catalog(), streams=["counted"], **window)  # type: ignore[arg-type]
        unmute(space.store, planned.mute_id, who="ann", reason="not today", now=T0 + 30)
        assert current_mutes(space.store, T0 + 31) == ()
        assert handling(space.store, T0 + 60).muted(DOWN, T0 + 60) is None

    def test_one_whose_beginning_has_passed_begins_now(self, space: Workspace) -> None:
        """What was sent before it was planned stays sent: nobody rewrites what has happened."""
        window = {"starts_at": T0 - HOUR, "until": T0 + HOUR, "who": "ann", "reason": "update", "now": T0}
        planned = plan_maintenance(space.store, space.catalog(), fleet=True, **window)  # type: ignore[arg-type]
        assert planned.starts_at == T0
