"""Authorization. Airflow mounts a plugin's app outside its own authentication, so each route asks here.

A user who may read the runs of a DAG may read its stream or drill. A page offers only what the user may run; the
request itself goes to Airflow's own API, which checks it again.
"""

from collections.abc import Collection
from typing import Annotated, Any, Final, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Path, Query

from streamwarden.adapters.airflow_server import PREFIX
from streamwarden.airflow.web.shared_workspace import SpaceDep, catalogs
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.runs import RUN_ID
from streamwarden.drills.spec import DRILL_NAME
from streamwarden.errors import ConfigError
from streamwarden.health.check_relations import EVERYWHERE
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.mutes import Mute
from streamwarden.lifecycle.queries import owner
from streamwarden.redaction import redacted_text
from streamwarden.services.incidents.handling import find
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import NAME_PATTERN, StreamSpec

RunId = Annotated[str, Path(pattern=f"^{RUN_ID.pattern}$")]
RunIdQuery = Annotated[str | None, Query(pattern=f"^{RUN_ID.pattern}$")]
DriverId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]+$", max_length=200)]
DrillName = Annotated[str | None, Query(pattern=f"^{DRILL_NAME.pattern}$")]
StreamName = Annotated[str, Path(pattern=f"^{NAME_PATTERN.pattern}$", max_length=200)]
IncidentId = Annotated[str, Path(pattern="^[0-9a-z-]{1,64}$")]
QueryName = Annotated[str | None, Query(pattern=f"^{NAME_PATTERN.pattern}$", max_length=200)]

Method = Literal["GET", "POST", "PUT"]

_DOES: Final = {"GET": "read", "POST": "trigger", "PUT": "change"}

HEALTH: Final = "health"
"""Id of the DAG that judges the streams."""


def allowed(dag_id: str, user: Any, method: Method = "GET") -> bool:
    """Whether `user` may read (GET), trigger (POST) or change (PUT) the runs of this DAG."""
    return dag_id in allowed_of([dag_id], user, method)


def allowed_of(
    dag_ids: Collection[str], user: Any, method: Method = "GET", entity: DagAccessEntity = DagAccessEntity.RUN
) -> frozenset[str]:
    """Those of `dag_ids` whose runs, or another `entity` of theirs, `user` may read, trigger or change."""
    several_teams = conf.getboolean("core", "multi_team")
    teams = DagModel.get_dag_id_to_team_name_mapping(list(dag_ids)) if several_teams else {}
    manager = get_auth_manager()

    def may(dag_id: str) -> bool:
        details = DagDetails(id=dag_id, team_name=teams.get(dag_id))
        return manager.is_authorized_dag(method=method, access_entity=entity, details=details, user=user)

    return frozenset(dag for dag in dag_ids if may(dag))


def dag_of_stream(name: str) -> str:
    """The DAG of a stream or of one of its queries; of `EVERYWHERE` the one that judges all streams."""
    return HEALTH if name == EVERYWHERE else f"{PREFIX}{owner(name)}"


def dags_of(mute: Mute) -> frozenset[str]:
    """The DAGs whose rights hold for a mute: all of them are needed."""
    return frozenset(map(dag_of_stream, mute.streams)) or frozenset({HEALTH})


def readable_stream(stream: StreamName, user: GetUserDep) -> str:
    """The stream of the URL, for a user who may read it. A user who may not learns nothing of whether it exists."""
    require(f"{PREFIX}{stream}", user, "GET")
    return stream


def stream_with_logs(stream: StreamName, user: GetUserDep) -> str:
    """The stream of the URL, for a user who may also read the logs of its tasks, where Airflow shows the driver's."""
    if not may_read_logs(readable_stream(stream, user), user):
        raise HTTPException(403, f"you may not read the logs of the tasks of the DAG {PREFIX}{stream}")
    return stream


def may_read_logs(stream: str, user: Any) -> bool:
    """Whether `user` may read the logs of the tasks of the stream's DAG, where Airflow shows the driver's."""
    return bool(allowed_of([f"{PREFIX}{stream}"], user, entity=DagAccessEntity.TASK_LOGS))


def changeable_stream(stream: StreamName, user: GetUserDep) -> str:
    """The stream of the URL, for a user who may change the runs of its DAG."""
    require(f"{PREFIX}{stream}", user, "PUT")
    return stream


def require(dag_id: str, user: Any, method: Method) -> None:
    """Raises HTTPException with 403 unless `user` may do this to the runs of the DAG."""
    if not allowed(dag_id, user, method):
        raise HTTPException(403, f"you may not {_DOES[method]} the runs of the DAG {dag_id}")


def readable_run(run_id: RunId, user: GetUserDep, space: SpaceDep) -> DrillRun:
    """The run, for a user who may read its drill's DAG; 404 in every other case, so that ids cannot be probed."""
    run = space.store.journals.get(run_id)
    if run is None or not allowed(f"drill_{run.drill}", user):
        raise HTTPException(404, "there is no such drill run, or you may not read it")
    return run


def readable_incident(incident_id: IncidentId, user: GetUserDep, space: SpaceDep) -> Incident:
    """The incident, for a user who may read the runs of its stream's DAG."""
    return _incident_for(incident_id, user, space, "GET")


def changeable_incident(incident_id: IncidentId, user: GetUserDep, space: SpaceDep) -> Incident:
    """The incident, for a user who may change the runs of its stream's DAG."""
    return _incident_for(incident_id, user, space, "PUT")


def _incident_for(incident_id: str, user: Any, space: Workspace, method: Method) -> Incident:
    """Raises HTTPException: 404 for an id that the store does not have, 403 if `user` may not do this."""
    try:
        incident = find(space.store, incident_id)
    except ConfigError:
        raise HTTPException(404, f"there is no such incident, or you may not {_DOES[method]} it") from None
    require(dag_of_stream(incident.stream), user, method)
    return incident


def declared(space: Workspace, stream: str, query: str | None) -> StreamSpec:
    """A stream, or one of its queries, as its file declares it; 404 if there is none, or its file cannot be used."""
    try:
        return catalogs().spec(space, stream, query)
    except ConfigError as error:
        raise HTTPException(404, redacted_text(str(error))) from error


StreamDep = Annotated[str, Depends(readable_stream)]
LoggedStreamDep = Annotated[str, Depends(stream_with_logs)]
ChangedStreamDep = Annotated[str, Depends(changeable_stream)]
RunDep = Annotated[DrillRun, Depends(readable_run)]
IncidentDep = Annotated[Incident, Depends(readable_incident)]
ChangedIncidentDep = Annotated[Incident, Depends(changeable_incident)]
