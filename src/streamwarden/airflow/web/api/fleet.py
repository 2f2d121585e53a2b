"""`/api/v1` of what the pages show: streams, drills, incidents, mutes, hosts. Times are Unix seconds."""

import time
from typing import Annotated, Any, Final

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import HTTPException, Query
from fastapi.responses import JSONResponse, Response
from pydantic import AliasPath, Field

from streamwarden.airflow.web import readable_drills, readable_fleet
from streamwarden.airflow.web.access import DrillName, IncidentDep, QueryName, RunDep, StreamDep, declared
from streamwarden.airflow.web.api.operations import answer, answers, api_router, clean
from streamwarden.airflow.web.shared_workspace import SpaceDep, catalogs
from streamwarden.drills.records.journal import DrillRun, DrillStatus, JournalEntry
from streamwarden.drills.reporting.listing import DrillVerdict, RunFilter
from streamwarden.drills.reporting.report import document, verdict_word
from streamwarden.drills.reporting.resilience import ErrorOfFormula, Resilience
from streamwarden.health.evaluations import LastRound
from streamwarden.health.incidents.handling import Handling
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.incident_log import LogEntry
from streamwarden.health.incidents.mutes import Mute
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.events import StreamEvent
from streamwarden.lifecycle.hosts.report import Drain, HostReport, HostState
from streamwarden.services.analysis.history import history
from streamwarden.services.hosts.listing import Placed
from streamwarden.services.incidents.handling import handling, log_of
from streamwarden.services.incidents.muting import current_mutes
from streamwarden.services.overview.charts import ChartData, chart_data, chart_for
from streamwarden.services.overview.models import Model, Text, attributes, derived
from streamwarden.services.overview.rows import DrillResult, StreamRow
from streamwarden.services.overview.selection import PAGE, Selection, Totals
from streamwarden.units import DAY, HOUR

router = api_router("streams")
of_drills = api_router("drills")
of_incidents = api_router("incidents")
of_hosts = api_router("hosts")
ROUTERS: Final = (router, of_drills, of_incidents, of_hosts)

OneStream = Annotated[str, Query(max_length=200)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Since = Annotated[float | None, Query(ge=0, le=1e11, description="Unix seconds; the default is an hour ago")]
DagRunId = Annotated[
    str | None, Query(max_length=250, description="id of a run of a drill's DAG in Airflow: only the drill that it is")
]
Until = Annotated[float | None, Query(ge=0, le=1e11, description="Unix seconds; the default is now")]


@derived(LastRound, without={"text"})
class Evaluation(Model):
    """The last evaluation of all streams."""


class StreamList(Model):
    """The streams that the user may read, a page of them."""

    at: float
    """when the rows were read"""
    last_evaluation: Text = Field(validation_alias=AliasPath("last", "text"))
    """when the streams were judged last, and by what; empty if the user may not read the DAG `health`"""
    evaluation: Evaluation | None
    """the same as fields; None if the user may not read the DAG `health`"""
    totals: Totals
    found: int
    """rows that fit, on all pages"""
    streams: tuple[StreamRow, ...] = Field(validation_alias="rows")


class StreamDetail(Model):
    """One stream: its own row, then those of its queries."""

    at: float
    rows: tuple[StreamRow, ...]


class Charts(Model):
    """The charts of a stream or a query."""

    since: float
    until: float
    charts: tuple[ChartData, ...]


@derived(StreamEvent, without={"stream"})
class Event(Model):
    """Something that happened to a stream."""


class Drill(DrillResult):
    """One run of a drill."""

    stream: str
    reason: str


@derived(JournalEntry)
class JournalLine(Model):
    """One entry of a journal."""


@derived(DrillRun)
class Journal(Model):
    """Everything that a run of a drill recorded, enough to reach the same verdict."""

    format: int
    """of `facts`"""
    verdict: str
    """PASSED, DEVIATED, ABORTED, FAILED or RUNNING"""
    status: DrillStatus
    """whether the drill completed"""
    deviated: bool | None
    """whether the system deviated; None: not known"""
    facts: dict[str, Any]
    """by step: the drill, the fork, the fault with its proof, the batches, the reconciliation"""
    entries: tuple[JournalLine, ...]


@derived(Incident, without={"good", "notified_at", "notified_status"})
class IncidentModel(Model):
    """An incident, open or resolved."""

    peak: Status
    """the worst status that it ever had"""
    consequence_of: str | None
    """id of the incident that caused it; None: it alarms"""
    acknowledged_by: str | None
    muted_until: float | None
    evidence: dict[str, Any]
    """of the newest verdict that was not good: the numbers and where they came from"""


@derived(Mute, without={"ended_at"})
class Muted(Model):
    """A mute or a maintenance window."""

    scope: str
    until: float = Field(validation_alias="over_at")
    ended_by: str
    """who ended it before its time; empty if no person did"""
    ended_reason: str


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


class TrialRow(Model):
    """One fault of one run of a drill."""

    run_id: str
    drill: str
    at: float
    """when the run began"""
    verdict: str
    """PASSED, DEVIATED, ABORTED or FAILED"""
    recovery_seconds: float | None = Field(validation_alias="recovery")
    """from the fault to the first new commit; None: it was not observed"""


@derived(ErrorOfFormula)
class FormulaError(Model):
    """Error of a formula against the measured recoveries: 0.25 means that it predicted a quarter too much."""


@derived(Resilience)
class ResilienceRow(Model):
    """Resilience of one stream to one variant of a fault."""

    variant: str
    """the options that make it another experiment, such as `moment: after_state`; empty if there are none"""
    verdict: str
    """of the newest run that ended; NEVER if there is none"""
    survived_at: float | None
    """when the newest run began that passed"""
    phases: dict[str, int]
    """how many of the newest strikes fell into each phase of a batch; empty if none of them shows a phase"""
    errors: tuple[FormulaError, ...]
    trials: tuple[TrialRow, ...] = Field(validation_alias="recent")
    """the newest runs that ended, at most 50, newest first"""


@derived(HostReport, without={"name", "versions"})
class Report(Model):
    """The newest report of a host. Times are Unix seconds, sizes are bytes."""

    versions: dict[str, str]


@derived(Placed)
class PlacedDriver(Model):
    """A driver, and the memory of its JVM, its Python and what they started."""


@derived(Drain, without={"host"})
class DrainModel(Model):
    """A host that is drained starts no driver."""

    requested_by: Text
    reason: Text


class HostModel(Model):
    """A host that runs drivers."""

    name: str
    state: HostState
    drivers: tuple[PlacedDriver, ...]
    report: Report | None
    drain: DrainModel | None


class ResilienceMatrix(Model):
    """Faults that each stream survived in its drills."""

    at: float
    """when the rows were read"""
    rows: tuple[ResilienceRow, ...]


@router.get("/streams", operation_id="list_streams", response_model=StreamList)
def streams(user: GetUserDep, chosen: Annotated[Selection, Query()]) -> Response:
    """Every stream and query that the user may read."""
    return clean(StreamList.model_validate(readable_fleet.fleet(user, chosen)))


@router.get("/streams/{stream}", operation_id="get_stream", response_model=StreamDetail)
def stream(stream: StreamDep) -> Response:
    """One stream with its queries."""
    at, rows = readable_fleet.rows_of(stream)
    if not rows:
        raise HTTPException(404, f"there is no stream {stream}")
    return clean(StreamDetail(at=at, rows=tuple(rows)))


@router.get("/streams/{stream}/charts", operation_id="get_charts", response_model=Charts)
def charts(
    stream: StreamDep, space: SpaceDep, since: Since = None, until: Until = None, query: QueryName = None
) -> Response:
    """The charts of a stream, or of one of its queries, over a range."""
    spec = declared(space, stream, query)
    now = time.time()
    end = now if until is None else min(until, now)
    begin = end - HOUR if since is None else since
    if begin >= end:
        raise HTTPException(422, f"the range is empty: it begins at {begin:.0f} and ends at {end:.0f}")
    data = chart_data(space.store, spec, catalogs().newest(space).thresholds, begin, end)
    return clean(Charts(since=begin, until=end, charts=data))


@router.get("/streams/{stream}/events", operation_id="list_events", response_model=list[Event])
def events(stream: StreamDep, space: SpaceDep, since: Since = None) -> JSONResponse:
    """Events of a stream: launches, crashes, restarts, stops, deployments, drills; the oldest first."""
    begin = time.time() - 7 * DAY if since is None else since
    return answers(map(Event.model_validate, history(space.store, stream, begin)))


@of_drills.get("/drills", operation_id="list_drill_runs", response_model=list[Drill])
def drills(
    user: GetUserDep,
    space: SpaceDep,
    stream: QueryName = None,
    drill: DrillName = None,
    verdict: DrillVerdict | None = None,
    offset: Annotated[int, Query(ge=0, le=10**6)] = 0,
    limit: Limit = PAGE,
    dag_run: DagRunId = None,
) -> JSONResponse:
    """The runs of drills that the user may read, newest first."""
    names = {name for name, _ in readable_drills.drilled(space, user) if drill in (None, name)}
    if dag_run is not None:
        runs = readable_drills.of_dag_run(space, names, dag_run)
    else:
        chosen = RunFilter(drills=names, stream=stream, verdict=verdict, offset=offset, limit=limit)
        runs, _ = space.store.journals.listed(chosen)
    return answers(Drill(**attributes(run), verdict=verdict_word(run)) for run in runs)


@of_drills.get("/drills/{run_id}", operation_id="get_drill_journal", response_model=Journal)
def journal(run: RunDep, space: SpaceDep) -> JSONResponse:
    """The journal of a run of a drill."""
    return answer(Journal.model_validate(document(run, space.store.journals.entries(run.run_id))))


@of_incidents.get("/incidents", operation_id="list_incidents", response_model=list[IncidentModel])
def incidents(
    user: GetUserDep, space: SpaceDep, stream: OneStream = "", past: bool = False, limit: Limit = PAGE
) -> JSONResponse:
    """The open incidents that the user may read; with `past` the newest, resolved ones too."""
    now = time.time()
    handled = handling(space.store, now, since=0.0 if past else None)
    listed = readable_fleet.incidents(space, user, stream=stream, past=past, limit=limit)
    return answers([incident_model(incident, handled, now) for incident in listed])


def incident_model(incident: Incident, handled: Handling, now: float) -> IncidentModel:
    """The incident as the API shows it at `now`."""
    acknowledgement, mute = handled.acknowledged(incident), handled.muted(incident, now)
    return IncidentModel(
        **attributes(incident),
        acknowledged_by=acknowledgement.who if acknowledgement else None,
        muted_until=mute.over_at if mute else None,
    )


@of_incidents.get("/incidents/{incident_id}", operation_id="get_incident", response_model=IncidentDetail)
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


@of_incidents.get("/mutes", operation_id="list_mutes", response_model=list[Muted])
def mutes(
    user: GetUserDep, space: SpaceDep, stream: OneStream = "", past: bool = False, limit: Limit = PAGE
) -> JSONResponse:
    """The mutes and maintenance windows that are in force or planned and that the user may read; with `past` those that
    are over too. Those that begin last come first."""
    store = space.store
    readable = readable_fleet.mutes(user, store.mutes.since(0.0) if past else current_mutes(store, time.time()), stream)
    return answers(map(Muted.model_validate, readable[::-1][:limit]))


@of_drills.get("/resilience", operation_id="get_resilience_matrix", response_model=ResilienceMatrix)
def resilience(user: GetUserDep, stream: QueryName = None) -> JSONResponse:
    """The resilience matrix: a row for each stream, fault and variant of it, of the drills that the user may read."""
    at, rows = readable_drills.resilience_for(user, stream)
    return answer(ResilienceMatrix(at=at, rows=tuple(map(ResilienceRow.model_validate, rows))))


@of_hosts.get("/hosts", operation_id="list_hosts", response_model=list[HostModel])
def hosts(user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """The hosts that run drivers, with the drivers of streams that the user may read; none for a user who may not read
    the DAG `health`."""
    return answers(map(HostModel.model_validate, readable_fleet.hosts(space, user)))
