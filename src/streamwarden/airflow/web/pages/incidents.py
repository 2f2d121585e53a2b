"""The pages of incidents: the open ones, their consequences and who handles them; and one with its evidence."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from streamwarden.airflow.web import readable_fleet
from streamwarden.airflow.web.access import HEALTH, IncidentDep, allowed, allowed_of, dag_of_stream
from streamwarden.airflow.web.rendering import page
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.airflow.web.words.folds import folded_incidents
from streamwarden.health.check_relations import EVERYWHERE
from streamwarden.health.incidents.consequences import IncidentGroup, grouped
from streamwarden.health.incidents.incident import Incident
from streamwarden.services.incidents.drill_incidents import run_of
from streamwarden.services.incidents.handling import handling, log_of
from streamwarden.services.incidents.muting import current_mutes
from streamwarden.services.overview.charts import chart_for

router = APIRouter()

PAST: Final = 200
"""Newest incidents that are read."""
AROUND: Final = 1800.0
"""Seconds before and after an incident was opened that its chart shows."""


@router.get("/incidents")
def incidents(
    request: Request,
    user: GetUserDep,
    space: SpaceDep,
    stream: Annotated[str, Query(max_length=200)] = "",
    past: bool = False,
    open: Annotated[Sequence[Annotated[str, Field(max_length=80)]], Query()] = (),
    part: str = "",
) -> Response:
    """The open incidents, or the newest with those that are resolved. `open`: names of the folds that are unfolded."""
    now = time.time()
    rows = readable_fleet.snapshot_for(user).rows
    readable = readable_fleet.incidents(space, user, stream=stream, past=past, limit=PAST)
    return page(
        request,
        "incidents_list.html" if part == "list" else "incidents.html",
        lines=folded_incidents(_order(grouped(readable)), open),
        unfold=lambda name: urlencode(_asked(stream, past, sorted({*open} ^ {name})), doseq=True),
        run_of=run_of,
        handling=handling(space.store, now, since=0.0 if past else None),
        mutes=(mutes := readable_fleet.mutes(user, current_mutes(space.store, now), stream)),
        ends=frozenset(mute.mute_id for mute in readable_fleet.mutes(user, mutes, stream, "PUT")),
        stream=stream,
        past=past,
        now=now,
        streams=[row.stream for row in rows if not row.is_query],
        tags=readable_fleet.tags_of(rows),
        may=_changeable(readable, user),
        plans=allowed(HEALTH, user, "PUT"),
        everywhere=EVERYWHERE,
    )


@router.get("/incidents/{incident_id}")
def incident(found: IncidentDep, request: Request, user: GetUserDep, space: SpaceDep, part: str = "") -> Response:
    """One incident: its reason, what it caused, its evidence around the moment, and what people did."""
    now = time.time()
    return page(
        request,
        "incident_state.html" if part == "state" else "incident.html",
        charts=not part,
        run_of=run_of,
        group=IncidentGroup(found, tuple(space.store.incidents.consequences(found.incident_id))),
        log=log_of(space.store, found, now),
        handling=handling(space.store, now, since=0.0),
        chart="" if found.stream == EVERYWHERE else chart_for(found.check),
        since=found.opened_at - AROUND,
        until=min(now, (found.resolved_at or found.opened_at) + AROUND),
        now=now,
        own=found.stream.partition("/"),
        may=_changeable([found], user),
        everywhere=EVERYWHERE,
    )


def _asked(stream: str, past: bool, opened: Sequence[str]) -> dict[str, object]:
    """The parameters of the page, without those at their default."""
    values = {"stream": stream, "past": "true" if past else "", "open": opened}
    return {name: value for name, value in values.items() if value}


def _changeable(incidents: Sequence[Incident], user: Any) -> frozenset[str]:
    """The ids of the incidents that the user may act on."""
    ids = allowed_of({dag_of_stream(item.stream) for item in incidents}, user, "PUT")
    return frozenset(item.incident_id for item in incidents if dag_of_stream(item.stream) in ids)


def _order(groups: Sequence[IncidentGroup]) -> list[IncidentGroup]:
    """Open before resolved, the worst first, then the newest."""
    return sorted(
        groups, key=lambda group: (group.root.resolved_at is not None, -group.status.rank, -group.root.opened_at)
    )
