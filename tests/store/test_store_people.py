"""What people did about incidents is a log; a mute is ended once; each is read for the whole fleet in one query."""

from dataclasses import replace

import pytest

from streamwarden.adapters.store import Store
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.incident_actions import ActionKind, IncidentAction
from streamwarden.health.incidents.mutes import Mute
from streamwarden.health.verdict import Status
from streamwarden.redaction import REDACTED
from support.streams.statements import Statements

INCIDENT = Incident(
    incident_id="incident-1",
    stream="flights",
    check="state_size",
    status=Status.WARNING,
    opened_at=100,
    updated_at=100,
    reason="2 GB is above 1 GB",
)
TAKEN = IncidentAction(
    incident_id="incident-1",
    kind=ActionKind.ACKNOWLEDGED,
    who="ann@laptop (command line)",
    at=200.5,
    status=Status.WARNING,
    text="I look at it",
)
MUTE = Mute(
    mute_id="mute-1",
    who="ann",
    reason="a new disk",
    created_at=50,
    starts_at=100,
    until=200,
    streams=("flights", "clicks/late"),
    checks=("backlog",),
    tag="nightly",
    planned=True,
)


class TestIncidentActions:
    def test_the_log_of_an_incident_is_read_as_it_was_written(self, store: Store) -> None:
        """In the order of writing: the second one came from a host whose clock is slow."""
        back = replace(TAKEN, kind=ActionKind.WITHDRAWN, at=150, text="", who="ben", status=Status.CRITICAL)
        for each in (TAKEN, back, replace(TAKEN, incident_id="incident-2")):
            store.incident_actions.add(each)
        assert store.incident_actions.of("incident-1") == (TAKEN, back)
        assert store.incident_actions.of("nothing") == ()

    def test_the_same_action_twice_is_kept_twice(self, store: Store) -> None:
        """Nothing that a person does is overwritten."""
        store.incident_actions.add(TAKEN)
        store.incident_actions.add(TAKEN)
        assert store.incident_actions.of("incident-1") == (TAKEN, TAKEN)

    def test_those_of_all_open_and_lately_resolved_incidents_are_one_query(self, store: Store) -> None:
        for number in range(20):
            store.incidents.save(replace(INCIDENT, incident_id=f"open-{number}", stream=f"s{number}"))
            store.incident_actions.add(replace(TAKEN, incident_id=f"open-{number}"))
        for name, at in {"lately": 300, "long ago": 299}.items():
            store.incidents.save(replace(INCIDENT, incident_id=name, status=Status.OK, resolved_at=at))
            store.incident_actions.add(replace(TAKEN, incident_id=name))
        statements = Statements(store)
        found = store.incident_actions.current(300)
        assert statements.count == 1
        assert set(found) == {*(f"open-{number}" for number in range(20)), "lately"}
        assert found["lately"] == (replace(TAKEN, incident_id="lately"),)

    def test_a_comment_holds_no_secret(self, store: Store) -> None:
        store.incident_actions.add(replace(TAKEN, text="logged in with password=hunter2-hunter2"))
        assert store.incident_actions.of("incident-1")[0].text == f"logged in with password={REDACTED}"


class TestMutes:
    def test_a_mute_is_read_as_it_was_written(self, store: Store) -> None:
        fleet = replace(MUTE, mute_id="mute-2", streams=(), checks=(), tag="", planned=False)
        store.mutes.add(MUTE)
        store.mutes.add(fleet)
        assert store.mutes.get("mute-1") == MUTE
        assert store.mutes.get("mute-2") == fleet
        assert store.mutes.get("mute") is None

    def test_those_in_force_and_planned_are_one_query(self, store: Store) -> None:
        spans = {"over": (0, 149), "ended early": (0, 900), "in force": (100, 300), "planned": (400, 500)}
        for name, (start, until) in spans.items():
            store.mutes.add(replace(MUTE, mute_id=name, starts_at=start, until=until))
        store.mutes.end("ended early", at=120, by="ben", reason="done")
        statements = Statements(store)
        assert [each.mute_id for each in store.mutes.since(150)] == ["in force", "planned"]
        assert statements.count == 1
        assert [each.mute_id for each in store.mutes.since(120)] == ["ended early", "over", "in force", "planned"]

    def test_the_first_end_counts_and_changes_nothing_else(self, store: Store) -> None:
        store.mutes.add(MUTE)
        assert store.mutes.end("mute-1", at=150, by="ben", reason="the disk is in")
        assert not store.mutes.end("mute-1", at=160, by="cleo", reason="again")
        assert store.mutes.get("mute-1") == replace(MUTE, ended_at=150, ended_by="ben", ended_reason="the disk is in")

    @pytest.mark.parametrize(("name", "at"), [("mute-1", 200), ("nothing", 150)])
    def test_what_is_over_or_unknown_cannot_be_ended(self, store: Store, name: str, at: float) -> None:
        store.mutes.add(MUTE)
        assert not store.mutes.end(name, at=at, by="ben", reason="late")
        assert store.mutes.get("mute-1") == MUTE

    def test_mutes_go_400_days_after_their_time_and_actions_stay(self, store: Store) -> None:
        day = 86400.0
        for name, until in {"old": 10 * day, "new": 11 * day}.items():
            store.mutes.add(replace(MUTE, mute_id=name, until=until))
        store.incident_actions.add(TAKEN)
        assert store.prune(410.5 * day).mutes == 1
        assert store.mutes.get("old") is None
        assert store.mutes.get("new") is not None
        assert store.incident_actions.of("incident-1") == (TAKEN,)


class TestMatching:
    def test_an_incident_is_found_by_the_beginning_of_its_id(self, store: Store) -> None:
        for number, name in enumerate(("ab12", "ab34", "ab3", "100%")):
            store.incidents.save(replace(INCIDENT, incident_id=name, stream=f"s{number}"))
        found = {text: [each.incident_id for each in store.incidents.matching(text)] for text in ("ab1", "ab3", "1")}
        assert found == {"ab1": ["ab12"], "ab3": ["ab3"], "1": ["100%"]}
        assert len(store.incidents.matching("ab")) == 2
        assert store.incidents.matching("%") == store.incidents.matching("") == store.incidents.matching("x") == ()
