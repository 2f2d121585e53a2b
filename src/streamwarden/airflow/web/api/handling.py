"""`/api/v1` for what people do about incidents: acknowledge, comment, mute, plan maintenance."""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from fastapi import HTTPException, Path, Request
from fastapi.responses import JSONResponse
from pydantic import Field, model_validator

from streamwarden.airflow.web.access import (
    HEALTH,
    ChangedIncidentDep,
    ChangedStreamDep,
    dag_of_stream,
    dags_of,
    require,
)
from streamwarden.airflow.web.api.fleet import Muted
from streamwarden.airflow.web.api.operations import answer, api_router
from streamwarden.airflow.web.api.refusals import Refused
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.errors import ConfigError
from streamwarden.health.incidents.incident_actions import IncidentAction
from streamwarden.lifecycle.queries import identity
from streamwarden.services.incidents.handling import acknowledge, add_comment, withdraw
from streamwarden.services.incidents.muting import current_mutes, mute, plan_maintenance, unmute
from streamwarden.services.overview.models import Model, derived
from streamwarden.services.workspace import Workspace
from streamwarden.units import HOUR

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def from_here(request: Request) -> None:
    """Raises HTTPException with 403 if another site makes this request in a browser; Airflow does not refuse it.

    A browser says so in `Sec-Fetch-Site`, but only to HTTPS and to its own machine. It sends `Origin` with every
    request that changes something, also over plain HTTP. A program sends neither and brings its own token.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        foreign = site not in ("same-origin", "none")
    else:
        origin = request.headers.get("origin")
        foreign = origin is not None and not is_own(origin, own_hosts(request))
    if foreign:
        raise HTTPException(403, "this request comes from another site")


def own_hosts(request: Request) -> Iterator[str]:
    """The hosts, each with its port if it is not the default one, under which a browser may know this Airflow.

    A proxy may send its own name in `Host` and that of the browser's request in `X-Forwarded-Host`, which uvicorn's
    `--proxy-headers` does not read. Another site cannot forge either: a browser sends no header that a page made up to
    another site, unless that site allowed it before.
    """
    yield request.headers.get("host", "")
    yield from (host.strip() for host in request.headers.get("x-forwarded-host", "").split(","))
    yield urlsplit(conf.get("api", "base_url", fallback="") or "").netloc


def is_own(origin: str, hosts: Iterable[str]) -> bool:
    """Whether `origin` (`https://ops.example:8443`) is one of `hosts`. `null`, the origin of a sandbox, is none.

    The scheme is not compared: a proxy that ends TLS may not say which one the browser used.
    """
    default = _DEFAULT_PORTS.get(urlsplit(origin).scheme)
    own = {_without(default, host) for host in hosts}
    return default is not None and _without(default, urlsplit(origin).netloc) in own - {""}


def _without(port: int | None, host: str) -> str:
    return host.lower().removesuffix(f":{port}")


router = api_router("incidents", from_here)

MuteId = Annotated[str, Path(pattern="^[0-9a-z-]{1,64}$")]
Text = Annotated[str, Field(max_length=500)]
Reason = Annotated[str, Field(min_length=1, max_length=500)]
LONGEST: Final = 24 * 90
"""Hours of a mute or a maintenance window at most."""
Hours = Annotated[float, Field(gt=0, le=LONGEST)]


class Said(Model):
    """A person's comment or reason."""

    reason: Text = ""


class MuteTime(Model):
    """A mute that begins now, and either lasts some hours or ends at a time."""

    hours: Hours | None = None
    until: datetime | None = None
    """UTC unless it says otherwise; at most 90 days from now"""
    reason: Reason

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if (self.hours is None) == (self.until is None):
            raise ValueError("expected either `hours` or `until`, and not both")
        return self

    def over_at(self, now: float) -> float:
        """End of the mute. Raises HTTPException if it is too far away."""
        end = now + HOUR * (self.hours or 0.0) if self.until is None else _utc(self.until)
        if end - now > HOUR * LONGEST:
            raise HTTPException(422, f"the mute would last longer than {LONGEST // 24} days; give an earlier end")
        return end


class MuteRequest(MuteTime):
    """A mute of a stream, of one of its queries, or of some of its checks."""

    query: Annotated[str, Field(max_length=200)] = ""
    """one query of several; empty: the stream with all of them"""
    checks: tuple[str, ...] = ()
    """empty: every check"""


class MaintenanceTime(Model):
    """Times of a maintenance window, and its reason."""

    starts: datetime
    """UTC unless it says otherwise"""
    hours: Hours
    reason: Reason


class MaintenanceRequest(MaintenanceTime):
    """A maintenance window: of the streams, of those with the tag, or of the whole fleet if neither is given."""

    streams: tuple[str, ...] = ()
    tag: Annotated[str, Field(max_length=200)] = ""


@derived(IncidentAction)
class Action(Model):
    """A person's action on an incident."""


def who(user: Any) -> str:
    """The user, as the CLI and the pages show people."""
    return f"{user.get_name()} (Airflow)"


@router.post("/incidents/{incident_id}/acknowledge", operation_id="acknowledge_incident", response_model=Action)
def acknowledging(incident: ChangedIncidentDep, said: Said, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Take care of an incident: its status is not sent again, unless it gets worse."""
    done = _act(acknowledge, space, incident.incident_id, who=who(user), now=time.time(), comment=said.reason)
    return answer(Action.model_validate(done))


@router.post("/incidents/{incident_id}/withdraw", operation_id="withdraw_acknowledgement", response_model=Action)
def withdrawing(incident: ChangedIncidentDep, said: Said, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Withdraw the acknowledgement: the incident is sent again like any other."""
    done = _act(withdraw, space, incident.incident_id, who=who(user), now=time.time(), comment=said.reason)
    return answer(Action.model_validate(done))


@router.post("/incidents/{incident_id}/comment", operation_id="comment_on_incident", response_model=Action)
def commenting(incident: ChangedIncidentDep, said: Said, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Comment on an incident; it changes nothing that is sent."""
    done = _act(add_comment, space, incident.incident_id, who=who(user), now=time.time(), text=said.reason)
    return answer(Action.model_validate(done))


@router.post("/streams/{stream}/mute", operation_id="mute_stream", response_model=Muted)
def muting(stream: ChangedStreamDep, wanted: MuteRequest, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Send nothing of the stream for some time; its incidents are still opened and shown."""
    return _mute(space, user, identity(stream, wanted.query), wanted, wanted.checks)


@router.post("/incidents/{incident_id}/mute", operation_id="mute_check", response_model=Muted)
def muting_check(incident: ChangedIncidentDep, wanted: MuteTime, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Send nothing of the check of this incident for some time, for its stream or query; every other check is sent."""
    return _mute(space, user, incident.stream, wanted, (incident.check,))


def _mute(space: Workspace, user: Any, name: str, wanted: MuteTime, checks: Sequence[str]) -> JSONResponse:
    now = time.time()
    made = _act(
        mute,
        space,
        space.catalog(),
        name,
        until=wanted.over_at(now),
        who=who(user),
        reason=wanted.reason,
        now=now,
        checks=checks,
    )
    return answer(Muted.model_validate(made))


@router.post("/streams/{stream}/maintenance", operation_id="plan_maintenance_of_stream", response_model=Muted)
def maintenance_of_stream(
    stream: ChangedStreamDep, wanted: MaintenanceTime, user: GetUserDep, space: SpaceDep
) -> JSONResponse:
    """Plan a maintenance window of one stream with its queries."""
    return _plan(space, user, wanted, streams=(stream,))


@router.post("/maintenance", operation_id="plan_maintenance", response_model=Muted)
def maintenance(wanted: MaintenanceRequest, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Plan a maintenance window. Needs the right to change each stream, for a tag or the fleet that to change the DAG
    `health`."""
    for dag_id in [dag_of_stream(stream) for stream in wanted.streams] or [HEALTH]:
        require(dag_id, user, "PUT")
    return _plan(space, user, wanted, streams=wanted.streams, tag=wanted.tag)


def _plan(
    space: Workspace, user: Any, wanted: MaintenanceTime, *, streams: Sequence[str], tag: str = ""
) -> JSONResponse:
    starts = _utc(wanted.starts)
    made = _act(
        plan_maintenance,
        space,
        space.catalog(),
        starts_at=starts,
        until=starts + wanted.hours * HOUR,
        who=who(user),
        reason=wanted.reason,
        now=time.time(),
        streams=streams,
        tag=tag,
        fleet=not streams and not tag,
    )
    return answer(Muted.model_validate(made))


@router.post("/mutes/{mute_id}/end", operation_id="end_mute", response_model=Muted)
def ending(mute_id: MuteId, said: Said, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """End a mute or a maintenance window before its time."""
    mute_in_force = next(
        (current for current in current_mutes(space.store, time.time()) if current.mute_id == mute_id), None
    )
    if mute_in_force is None:
        raise HTTPException(404, "there is no such mute in force, or you may not end it")
    for dag_id in dags_of(mute_in_force):
        require(dag_id, user, "PUT")
    ended = _act(unmute, space, mute_id, who=who(user), reason=said.reason, now=time.time())
    return answer(Muted.model_validate(ended))


def _utc(at: datetime) -> float:
    """Unix seconds; a time without a zone is UTC."""
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _act(act: Any, space: Workspace, *given: Any, **named: Any) -> Any:
    """Call it, and answer a person's mistake with 422. Raises StoreError."""
    try:
        return act(space.store, *given, **named)
    except ConfigError as error:
        raise Refused(422, error) from error
