"""`/api/v1` for reading one incident and the mutes: with what people did, when and why. Times are Unix seconds."""

import time
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from streamwarden.airflow.web import readable_fleet
from streamwarden.airflow.web.access import IncidentDep
from streamwarden.airflow.web.actions import Muted
from streamwarden.airflow.web.api import SHORT, IncidentModel, answer, answers, incident_model
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.health.incidents.incident_log import LogEntry
from streamwarden.services.incidents.handling import handling, log_of
from streamwarden.services.incidents.muting import current_mutes
from streamwarden.services.overview.charts import chart_for
from streamwarden.services.overview.models import Model, derived
from streamwarden.services.overview.selection import PAGE

router = APIRouter(prefix="/api/v1")


@derived(LogEntry)
class LogLine(Model):
    """A person's action on an incident, or a mute that concerns it."""


class IncidentDetail(IncidentModel):
    """One incident with what it caused and what people did."""

    chart: str
    """name of the stream's chart that shows the problem best"""
    consequences: tuple[str, ...]
    """ids of the incidents that it caused"""
    log: tuple[LogLine, ...]


@router.get("/incidents/{incident_id}", response_model=IncidentDetail)
def incident(incident: IncidentDep, space: SpaceDep) -> JSONResponse:
    """One incident, open or resolved."""
    now = time.time()
    shown = incident_model(incident, handling(space.store, now, since=0.0), now)
    caused = space.store.incidents.consequences(incident.incident_id)
    return answer(
        IncidentDetail(
            **shown.model_dump(),
            chart=chart_for(incident.check),
            consequences=tuple(consequence.incident_id for consequence in caused),
            log=tuple(map(LogLine.model_validate, log_of(space.store, incident, now))),
        )
    )


@router.get("/mutes", response_model=list[Muted])
def mutes(
    user: GetUserDep,
    space: SpaceDep,
    stream: Annotated[str, SHORT] = "",
    past: bool = False,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
) -> JSONResponse:
    """The mutes and maintenance windows that are in force or planned and that the user may read; with `past` those that
    are over too. Those that begin last come first."""
    store = space.store
    readable = readable_fleet.mutes(user, store.mutes.since(0.0) if past else current_mutes(store, time.time()), stream)
    return answers(map(Muted.model_validate, readable[::-1][:limit]))
