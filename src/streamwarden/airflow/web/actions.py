"""`/api/v1` for what people do about incidents: acknowledge, comment, mute, plan maintenance.

What people do with streams and drills are runs of DAGs: the pages and programs ask Airflow's own API for these.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException, Path
from fastapi.responses import JSONResponse
from pydantic import Field

from streamwarden.adapters.airflow_server import PREFIX
from streamwarden.airflow.web.access import HEALTH, ChangedStreamDep, dag_of, require
from streamwarden.airflow.web.api import answer
from streamwarden.airflow.web.origins import from_here
from streamwarden.airflow.web.place import SpaceDep
from streamwarden.errors import ConfigError
from streamwarden.health.actions import ActionKind, IncidentAction
from streamwarden.health.incident import Incident
from streamwarden.health.mutes import Mute
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.queries import identity, owner
from streamwarden.services.monitoring.handling import acknowledge, add_comment, find, withdraw
from streamwarden.services.monitoring.muting import current_mutes, mute, plan_maintenance, unmute
from streamwarden.services.overview.rows import Model
from streamwarden.services.workspace import Workspace

router = APIRouter(prefix="/api/v1", dependencies=[Depends(from_here)])

Id = Annotated[str, Path(pattern="^[0-9a-z-]{1,64}$")]
Text = Annotated[str, Field(max_length=500)]


class Said(Model):
    """What a person says about it."""

    reason: Text = ""


class MuteRequest(Model):
    """A mute that begins now."""

    hours: Annotated[float, Field(gt=0, le=24 * 90)]
    reason: Annotated[str, Field(min_length=1, max_length=500)]
    query: Annotated[str, Field(max_length=200)] = ""
    """one query of several; empty: the stream with all of them"""
    checks: tuple[str, ...] = ()
    """empty: every check"""


class MaintenanceRequest(Model):
    """A maintenance window: of the streams, of those with the tag, or of the whole fleet if neither is given."""

    starts: datetime
    hours: Annotated[float, Field(gt=0, le=24 * 90)]
    reason: Annotated[str, Field(min_length=1, max_length=500)]
    streams: tuple[str, ...] = ()
    tag: Annotated[str, Field(max_length=200)] = ""


class Action(Model):
    """What a person did about an incident."""

    incident_id: str
    kind: ActionKind
    who: str
    at: float
    status: Status
    """of the incident at that time"""
    text: str


class Muted(Model):
    """A mute or a maintenance window."""

    mute_id: str
    scope: str
    starts_at: float
    until: float
    who: str
    reason: str
    planned: bool
    """whether it is a maintenance window"""


def changeable(incident_id: Id, user: GetUserDep, space: SpaceDep) -> Incident:
    """The incident, for a user who may change the runs of its stream's DAG."""
    try:
        incident = find(space.store, incident_id)
    except ConfigError:
        raise HTTPException(404, "there is no such incident, or you may not change it") from None
    require(dag_of(incident), user, "PUT")
    return incident


IncidentDep = Annotated[Incident, Depends(changeable)]


def who(user: Any) -> str:
    """The user, as the CLI and the pages show people."""
    return f"{user.get_name()} (Airflow)"


@router.post("/incidents/{incident_id}/acknowledge", response_model=Action)
def acknowledging(incident: IncidentDep, said: Said, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Take care of an incident: its status is not sent again, unless it gets worse."""
    done = _act(acknowledge, space, incident.incident_id, who=who(user), now=time.time(), comment=said.reason)
    return _action(done)


@router.post("/incidents/{incident_id}/withdraw", response_model=Action)
def withdrawing(incident: IncidentDep, said: Said, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Withdraw the acknowledgement: the incident is sent again like any other."""
    done = _act(withdraw, space, incident.incident_id, who=who(user), now=time.time(), comment=said.reason)
    return _action(done)


@router.post("/incidents/{incident_id}/comment", response_model=Action)
def commenting(incident: IncidentDep, said: Said, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Say something about an incident; it changes nothing that is sent."""
    done = _act(add_comment, space, incident.incident_id, who=who(user), now=time.time(), text=said.reason)
    return _action(done)


@router.post("/streams/{stream}/mute", response_model=Muted)
def muting(stream: ChangedStreamDep, wanted: MuteRequest, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Send nothing of the stream for some hours; its incidents are still opened and shown."""
    now = time.time()
    made = _act(
        mute,
        space,
        space.catalog(),
        identity(stream, wanted.query),
        until=now + wanted.hours * 3600,
        who=who(user),
        reason=wanted.reason,
        now=now,
        checks=wanted.checks,
    )
    return _muted(made)


@router.post("/maintenance", response_model=Muted)
def maintenance(wanted: MaintenanceRequest, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Plan a maintenance window. Needs the right to change each stream, for a tag or the fleet that to change the DAG
    `health`."""
    for dag_id in [f"{PREFIX}{owner(each)}" for each in wanted.streams] or [HEALTH]:
        require(dag_id, user, "PUT")
    starts = wanted.starts if wanted.starts.tzinfo else wanted.starts.replace(tzinfo=UTC)
    made = _act(
        plan_maintenance,
        space,
        space.catalog(),
        starts_at=starts.timestamp(),
        until=starts.timestamp() + wanted.hours * 3600,
        who=who(user),
        reason=wanted.reason,
        now=time.time(),
        streams=wanted.streams,
        tag=wanted.tag,
        fleet=not wanted.streams and not wanted.tag,
    )
    return _muted(made)


@router.post("/mutes/{mute_id}/end", response_model=Muted)
def ending(mute_id: Id, said: Said, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """End a mute or a maintenance window before its time."""
    found = next((each for each in current_mutes(space.store, time.time()) if each.mute_id == mute_id), None)
    if found is None:
        raise HTTPException(404, "there is no such mute in force, or you may not end it")
    for dag_id in [f"{PREFIX}{owner(each)}" for each in found.streams] or [HEALTH]:
        require(dag_id, user, "PUT")
    return _muted(_act(unmute, space, mute_id, who=who(user), reason=said.reason, now=time.time()))


def _act(act: Any, space: Workspace, *given: Any, **named: Any) -> Any:
    """Do it, and answer what a person got wrong with 422. Raises StoreError."""
    try:
        return act(space.store, *given, **named)
    except ConfigError as error:
        raise HTTPException(422, str(error)) from error


def _action(done: IncidentAction) -> JSONResponse:
    return answer(
        Action(
            incident_id=done.incident_id, kind=done.kind, who=done.who, at=done.at, status=done.status, text=done.text
        )
    )


def _muted(made: Mute) -> JSONResponse:
    return answer(muted_model(made))


def muted_model(made: Mute) -> Muted:
    """The mute as the API shows it."""
    return Muted(
        mute_id=made.mute_id,
        scope=made.scope,
        starts_at=made.starts_at,
        until=made.over_at,
        who=made.who,
        reason=made.reason,
        planned=made.planned,
    )
