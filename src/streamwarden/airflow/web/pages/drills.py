"""The pages of all drills: running, overdue, the history, the resilience matrix, two runs side by side."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from streamwarden.airflow.web import readable_drills
from streamwarden.airflow.web.access import DrillName, QueryName, RunIdQuery, readable_run
from streamwarden.airflow.web.readable_drills import ConfiguredDrill
from streamwarden.airflow.web.rendering import page
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.airflow.web.words.drills import fits, has_words
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.comparison import compare
from streamwarden.drills.reporting.listing import PAGE, DrillVerdict, RunFilter
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.drills.reporting.resilience import cells, faults_of
from streamwarden.errors import DrillError
from streamwarden.services.workspace import Workspace

router = APIRouter()

CHOICE: Final = 200
"""Newest runs that can be picked for a comparison."""
TREND: Final = 12
"""Newest runs whose recoveries the matrix draws."""


class Search(BaseModel):
    """What a person looks for. The query parameters of the page.

    Args:
        q: words that are all in a drill's name, stream, fault, description or tags.
    """

    q: Annotated[str, Field(max_length=200)] = ""
    stream: QueryName = None
    drill: DrillName = None
    verdict: DrillVerdict | None = None
    offset: Annotated[int, Field(ge=0, le=10**6)] = 0
    part: str = ""

    def has(self, row: ConfiguredDrill) -> bool:
        """Whether the drill fits, by the verdict of its last run."""
        mine = self.stream in (None, row.spec.stream) and self.drill in (None, row.spec.name)
        word = None if row.ended is None else verdict_word(row.ended)
        judged = self.verdict in (None, word) or (self.verdict is DrillVerdict.RUNNING and row.running is not None)
        return mine and judged and fits(row.spec, self.q)

    def turned(self, pages: int) -> str:
        """The query string of another page of the history."""
        values = self.model_dump(exclude={"part"}) | {"offset": max(0, self.offset + pages * PAGE)}
        return urlencode({key: value for key, value in values.items() if value})


@router.get("/drills")
def drills(request: Request, user: GetUserDep, space: SpaceDep, asked: Annotated[Search, Query()]) -> Response:
    """The page, or one part of it to refresh it."""
    now = time.time()
    if asked.part == "running":
        return page(request, "drills_running.html", now=now, running=readable_drills.running(space, user, now))
    configured = readable_drills.configured(space, user, now)
    shown: dict[str, Any] = {
        "now": now,
        "asked": asked,
        "configured": configured,
        "fitting": [*filter(asked.has, configured)],
    }
    if asked.part == "drills":
        return page(request, "drills_list.html", **shown)
    pairs = readable_drills.drilled(space, user)
    history = _history(space, asked, pairs, configured)
    if asked.part == "history":
        return page(request, "drills_history.html", **shown, **history)
    return page(
        request,
        "drills.html",
        running=readable_drills.running(space, user, now),
        overdue=[row for row in configured if row.due is not None],
        streams=sorted({drilled for _, drilled in pairs} | {row.spec.stream for row in configured}),
        names=sorted({name for name, _ in pairs} | {row.spec.name for row in configured}),
        verdicts=list(DrillVerdict),
        **shown,
        **history,
    )


def _history(
    space: Workspace, asked: Search, pairs: Sequence[tuple[str, str]], configured: Sequence[ConfiguredDrill]
) -> dict[str, Any]:
    """The runs that fit. A drill that is no longer configured is found by its name and its stream alone."""
    specs = {row.spec.name: row.spec for row in configured}

    def found(name: str, stream: str) -> bool:
        return fits(specs[name], asked.q) if name in specs else has_words(f"{name} {stream}", asked.q)

    selected = {name for name, stream in pairs if asked.drill in (None, name) and found(name, stream)}
    chosen = RunFilter(drills=selected, stream=asked.stream, verdict=asked.verdict, offset=asked.offset)
    runs, total = space.store.journals.listed(chosen)
    return {"runs": runs, "found": total, "ever": bool(pairs)}


@router.get("/drills/matrix")
def matrix(request: Request, user: GetUserDep) -> Response:
    """A line for each stream, a column for each fault."""
    at, rows = readable_drills.resilience_for(user)
    return page(
        request,
        "drills_matrix.html",
        now=at,
        faults=faults_of(rows),
        streams=list(dict.fromkeys(row.stream for row in rows)),
        cells={(cell.stream, cell.fault): cell for cell in cells(rows)},
        trend=_trend,
    )


def _trend(recoveries: tuple[float, ...]) -> list[tuple[float, float]]:
    """The newest recoveries, oldest first, evenly apart."""
    return [(float(number), seconds) for number, seconds in enumerate(reversed(recoveries[:TREND]))]


@router.get("/drills/compare")
def side_by_side(
    request: Request, user: GetUserDep, space: SpaceDep, a: RunIdQuery = None, b: RunIdQuery = None
) -> Response:
    """Two runs side by side, or a choice of runs."""
    first, second = (None if run_id is None else readable_run(run_id, user, space) for run_id in (a, b))
    readable = {name for name, _ in readable_drills.drilled(space, user)}
    choice, _ = space.store.journals.listed(RunFilter(drills=readable, limit=CHOICE))
    return page(
        request,
        "drills_compare.html",
        first=first,
        second=second,
        choice=_with(choice, first, second),
        **_compared(first, second),
    )


def _with(choice: Sequence[DrillRun], *chosen: DrillRun | None) -> list[DrillRun]:
    """The runs that can be picked, with those that were picked, also if they are older."""
    listed = {run.run_id for run in choice}
    return [*choice, *(run for run in chosen if run is not None and run.run_id not in listed)]


def _compared(first: DrillRun | None, second: DrillRun | None) -> dict[str, Any]:
    if first is None or second is None:
        return {"found": None, "problem": ""}
    try:
        return {"found": compare(first, second), "problem": ""}
    except DrillError as error:
        return {"found": None, "problem": str(error)}
