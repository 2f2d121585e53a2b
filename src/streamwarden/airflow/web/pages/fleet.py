"""The fleet page: every stream in one table, streams in the same trouble as one line."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Final, get_args
from urllib.parse import urlencode

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from streamwarden.airflow.web import readable_fleet
from streamwarden.airflow.web.readable_fleet import SeenFleet
from streamwarden.airflow.web.rendering import HEADERS, KeptRows, page
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.airflow.web.words.badge import badge, since
from streamwarden.airflow.web.words.folds import Fold, folded
from streamwarden.airflow.web.words.reason import follows, reason
from streamwarden.health.verdict import Status
from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.overview.selection import Selection, Sort
from streamwarden.services.overview.status import State

router = APIRouter()

_LARGEST_FIRST = frozenset(set(Sort) - {Sort.TROUBLE, Sort.STREAM, Sort.STATE, Sort.FORECAST})
"""Columns whose first click shows the largest value: the one that a person looks for."""

RIGHTS_AGAIN: Final = 30.0
"""Seconds for which a page may go on showing rows that its user may not read any more."""
MOST_SHOWN: Final = 1000
"""Tables that are remembered."""

_kept: Final = KeptRows()
"""The rows as they were rendered last."""


class Shown:
    """The tables that open pages show. While the rows stay the same, the server answers 304 without asking Airflow for
    the user's rights to each of a thousand DAGs: the user has seen all that such an answer stands for. The server asks
    again after `RIGHTS_AGAIN` seconds. Threads may share it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, str], tuple[str, float]] = {}

    def holds(self, etag: str, user: str, reading: str) -> bool:
        """Whether the page of this user shows this table already, of this reading and query."""
        shown, at = self._kept.get((etag, user), ("", -math.inf))
        return shown == reading and self._clock() - at <= RIGHTS_AGAIN

    def keep(self, etag: str, user: str, reading: str) -> None:
        """Remember that the user's page shows it from now on."""
        if len(self._kept) >= MOST_SHOWN:
            self._kept.clear()
        self._kept[etag, user] = reading, self._clock()


_shown: Final = Shown()


class View(Selection):
    """What a person sees of the fleet: the rows, and how much of each. The query parameters of the page."""

    wide: bool = False
    """every column"""
    open: list[Annotated[str, Field(max_length=60)]] = Field(default_factory=list)
    """names of the folds that are unfolded"""


@dataclass(frozen=True, slots=True)
class Lines:
    """A page of lines: `rows` of the table, made of `shown` lines of `count` in all, without those of open folds."""

    rows: Sequence[Fold | StreamRow]
    shown: int
    count: int


@router.get("/")
def fleet(request: Request, user: GetUserDep, space: SpaceDep, chosen: Annotated[View, Query()]) -> Response:
    """The page, or the table alone to refresh it: 304 as long as nothing in it has changed."""
    part, has = request.query_params.get("part") == "fleet", request.headers.get("if-none-match", "")
    reading = f"{readable_fleet.newest_reading()}|{request.url.query}"
    if part and _shown.holds(has, user.get_id(), reading):
        return Response(status_code=304, headers={**HEADERS, "ETag": has})
    seen = readable_fleet.fleet(user, chosen)
    etag = _etag(seen, request.url.query)
    _shown.keep(etag, user.get_id(), reading)
    if part and has == etag:
        return Response(status_code=304, headers={**HEADERS, "ETag": etag})
    lines = _lines(seen, chosen)
    prefix = str(request.scope.get("root_path", ""))
    answer = page(
        request,
        "fleet_table.html" if part else "fleet.html",
        hosts=() if part else readable_fleet.hosts(space, user),
        chosen=chosen,
        states=get_args(State),
        healths=[status.value for status in Status if status is not Status.ADVICE],
        tags=seen.tags,
        now=seen.at,
        last=seen.last,
        totals=seen.totals,
        lines=lines.rows,
        shown=lines.shown,
        count=lines.count,
        row_html=lambda row: _kept.html(row, prefix, chosen.wide, _said_of),
        link=lambda sort: _sorted_by(chosen, sort),
        unfold=lambda name: _query(chosen, open=sorted({*chosen.open} ^ {name})),
        turn=lambda pages: _query(chosen, offset=max(0, chosen.offset + pages * chosen.limit)),
    )
    answer.headers["ETag"] = etag
    return answer


def _said_of(row: StreamRow) -> dict[str, Any]:
    return {"badge": badge(row), "since": since(row), "reason": reason(row), "follows": follows(row)}


def _etag(seen: SeenFleet, query: str) -> str:
    """Changes with the rows that were read, those that the user may read of them, and what is asked for."""
    said = f"{seen.reading}|{'|'.join(row.stream for row in seen.readable)}|{query}"
    return f'"{sha256(said.encode()).hexdigest()[:32]}"'


def _lines(seen: SeenFleet, chosen: View) -> Lines:
    """Folded only in the order of trouble, and unless a person searches for single streams."""
    if chosen.sort is not Sort.TROUBLE or chosen.text:
        return Lines(seen.rows, len(seen.rows), seen.found)
    closed = folded(seen.fitting, ())
    some = closed[chosen.offset : chosen.offset + chosen.limit]
    below = {row.stream for line in some for row in (line.rows if isinstance(line, Fold) else [line])}
    return Lines(folded([row for row in seen.fitting if row.stream in below], chosen.open), len(some), len(closed))


def _sorted_by(chosen: View, sort: str) -> str:
    """The address of the page sorted by a column; the other way round if it is sorted by it already."""
    again = chosen.sort == sort
    return _query(chosen, sort=sort, descending=not chosen.descending if again else sort in _LARGEST_FIRST, offset=0)


def _query(chosen: View, **changes: Any) -> str:
    """The query string of the view with these changes, without what is at its default."""
    values = chosen.model_dump(mode="json", by_alias=True, exclude_defaults=True) | changes
    shown = {key: str(value).lower() if value is True else value for key, value in values.items() if value}
    return urlencode(shown, doseq=True)
