"""Who did what about an incident: its actions, and the mutes and maintenance windows that concerned it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.incident_actions import ActionKind, IncidentAction
from streamwarden.health.incidents.incident_log import incident_log
from streamwarden.health.incidents.mutes import Mute
from streamwarden.health.verdict import Status

NOW = 1000.0
INCIDENT = Incident(
    incident_id="i",
    stream="pair/left",
    check="backlog",
    status=Status.WARNING,
    opened_at=500,
    updated_at=900,
    reason="behind",
)
TAKEN = IncidentAction(
    incident_id="i", kind=ActionKind.ACKNOWLEDGED, who="ann", at=600, status=Status.WARNING, text="on it"
)
MUTE = Mute(
    mute_id="m",
    who="ben",
    reason="a larger disk",
    created_at=550,
    starts_at=550,
    until=800,
    streams=("pair",),
    checks=("backlog",),
)


def said(*mutes: Mute, incident: Incident = INCIDENT) -> list[tuple[float, str, str, str]]:
    return [(each.at, each.who, each.what, each.said) for each in incident_log(incident, [TAKEN], mutes, NOW)]


def test_a_mute_that_a_person_ended_is_in_the_log_with_both() -> None:
    ended = replace(MUTE, ended_at=700, ended_by="cy", ended_reason="the disk is in")
    assert said(ended) == [
        (550, "ben", "muted", "a larger disk"),
        (600, "ann", "acknowledged", "on it"),
        (700, "cy", "ended the mute", "the disk is in"),
    ]


def test_log_entry_names_the_mute_scope_and_duration() -> None:
    (entry, _) = incident_log(INCIDENT, [TAKEN], [MUTE], NOW)
    assert (entry.since, entry.until, entry.scope) == (550, 800, "pair: backlog")


def test_a_maintenance_window_that_is_planned_concerns_an_open_incident() -> None:
    planned = replace(MUTE, planned=True, starts_at=2000, until=3000, checks=())
    assert said(planned)[0][2] == "planned maintenance"
    resolved = replace(INCIDENT, resolved_at=900)
    assert len(said(planned, incident=resolved)) == 1


@pytest.mark.parametrize(
    "other",
    [
        replace(MUTE, streams=("counted",)),
        replace(MUTE, checks=("state_size",)),
        replace(MUTE, created_at=100, starts_at=100, until=500),
        replace(MUTE, ended_at=499, ended_by="cy"),
        replace(MUTE, created_at=901, starts_at=901, until=950),
    ],
    ids=["of another stream", "of another check", "over before", "ended before", "begun after the end"],
)
def test_a_mute_that_did_not_concern_the_incident_is_not_in_its_log(other: Mute) -> None:
    assert said(other, incident=replace(INCIDENT, resolved_at=900)) == [(600, "ann", "acknowledged", "on it")]
