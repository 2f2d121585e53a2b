"""The fleet page: every stream in one table."""

from typing import Annotated, Any, get_args
from urllib.parse import urlencode

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from streamwarden.airflow.web import readable_fleet
from streamwarden.airflow.web.rendering import page
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.health.verdict import Status
from streamwarden.services.overview.selection import Selection, Sort
from streamwarden.services.overview.status import State

router = APIRouter()

_LARGEST_FIRST = frozenset(set(Sort) - {Sort.TROUBLE, Sort.STREAM, Sort.STATE, Sort.FORECAST})
"""Columns whose first click shows the largest value: the one that a person looks for."""


@router.get("/")
def fleet(request: Request, user: GetUserDep, space: SpaceDep, chosen: Annotated[Selection, Query()]) -> Response:
    """The page, or the table alone to refresh it."""
    shown, part = readable_fleet.fleet(user, chosen), request.query_params.get("part") == "fleet"
    return page(
        request,
        "fleet_table.html" if part else "fleet.html",
        hosts=() if part else readable_fleet.hosts(space, user),
        chosen=chosen,
        states=get_args(State),
        healths=[status.value for status in Status if status is not Status.ADVICE],
        tags=shown.tags,
        now=shown.at,
        last=shown.last,
        totals=shown.totals,
        rows=shown.rows,
        found=shown.found,
        link=lambda sort: _sorted_by(chosen, sort),
        turn=lambda pages: _query(chosen, offset=max(0, chosen.offset + pages * chosen.limit)),
    )


def _sorted_by(chosen: Selection, sort: str) -> str:
    """The address of the page sorted by a column; the other way round if it is sorted by it already."""
    again = chosen.sort == sort
    return _query(chosen, sort=sort, descending=not chosen.descending if again else sort in _LARGEST_FIRST, offset=0)


def _query(chosen: Selection, **changes: Any) -> str:
    """The query string of the selection with these changes, without what is at its default."""
    values = chosen.model_dump(mode="json", by_alias=True, exclude_defaults=True) | changes
    return urlencode({key: str(value).lower() if value is True else value for key, value in values.items() if value})
