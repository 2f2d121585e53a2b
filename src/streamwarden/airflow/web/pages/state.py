"""The tab State of a stream's page: its savepoints, what its checkpoint can still show, changes of its state, and
looks at it."""

import time
from typing import Any, Final

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from streamwarden.airflow.web import readable_fleet
from streamwarden.airflow.web.access import QueryName, StreamDep, allowed, allowed_of, declared
from streamwarden.airflow.web.rendering import page
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.airflow.web.state import details
from streamwarden.airflow.web.state.offers import offers
from streamwarden.airflow.web.stream_head import head
from streamwarden.lifecycle.queries import identity
from streamwarden.services.state.looks import Looks
from streamwarden.services.state.requested.assignments import Assignments
from streamwarden.services.state.requested.deletions import Deletions
from streamwarden.services.workspace import Workspace

router = APIRouter()

ACTIONS: Final = (
    *("create_savepoint", "verify_savepoint", "restore_stream", "rewind_stream", "repartition_stream"),
    *("compact_state", "delete_keys", "set_value", "upgrade_stream", "look_at_state"),
)
"""Ids of the DAGs that the page runs."""
_PARTS: Final = {
    "savepoints": "state_savepoints.html",
    "kept": "state_kept.html",
    "changes": "state_changes.html",
    "looks": "state_looks.html",
}


@router.get("/streams/{stream}/state")
def state(
    request: Request, stream: StreamDep, user: GetUserDep, space: SpaceDep, query: QueryName = None, part: str = ""
) -> Response:
    """The page, or one part of it to refresh it."""
    _, rows = readable_fleet.rows_of(stream)
    row = next((candidate for candidate in rows if candidate.stream == identity(stream, query or "")), None)
    if row is None:
        raise HTTPException(404, f"there is no stream {identity(stream, query or '')}")
    changes = allowed(row.dag_id, user, "PUT")
    return page(
        request,
        _PARTS.get(part, "stream_state.html"),
        row=row,
        head=head(space, user, row, rows),
        stream=stream,
        query=query,
        queries=[other for other in rows if other.is_query],
        now=time.time(),
        may=allowed_of(ACTIONS, user, "POST"),
        changes=changes,
        **_of_part(space, stream, query, part, changes),
    )


def _of_part(space: Workspace, stream: str, query: str | None, part: str, changes: bool) -> dict[str, Any]:
    """What a part shows; all of it for the whole page."""
    found: dict[str, Any] = {}
    if part in ("", "savepoints"):
        found["saved"] = details.savepoints(space, stream, query)
    if part in ("", "kept", "changes"):
        found["found"] = details.state(space, stream, query)
    if part in ("", "changes"):
        found["offers"] = offers(declared(space, stream, query), found["found"].kept)
        for kind in (Deletions, Assignments):
            found[kind.folder] = details.documents(kind, space, stream, query).newest() if changes else []
    if part in ("", "looks"):  # the contents of a state are data: who may only read the stream does not see them
        found["looks"] = details.documents(Looks, space, stream, query).newest() if changes else []
    return found
