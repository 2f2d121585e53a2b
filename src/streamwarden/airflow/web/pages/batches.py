"""The tab Batches of a stream's page: its newest batches, one line each."""

from typing import Final

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from streamwarden.airflow.web import readable_fleet
from streamwarden.airflow.web.access import QueryName, StreamDep
from streamwarden.airflow.web.rendering import page
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.airflow.web.stream_head import head
from streamwarden.airflow.web.words.batches import lines
from streamwarden.lifecycle.queries import identity

router = APIRouter()

SHOWN: Final = 100
"""Newest batches that the page has."""


@router.get("/streams/{stream}/batches")
def batches(
    request: Request, stream: StreamDep, user: GetUserDep, space: SpaceDep, query: QueryName = None, part: str = ""
) -> Response:
    """The page, or the table alone to refresh it."""
    now, rows = readable_fleet.rows_of(stream)
    name = identity(stream, query or "")
    row = next((candidate for candidate in rows if candidate.stream == name), None)
    if row is None:
        raise HTTPException(404, f"there is no stream {name}")
    return page(
        request,
        "stream_batch_lines.html" if part == "batches" else "stream_batches.html",
        row=row,
        head=head(space, user, row, rows),
        stream=stream,
        query=query,
        queries=[other for other in rows if other.is_query],
        now=now,
        lines=lines(space.store.batches.window(name, SHOWN)),
    )
