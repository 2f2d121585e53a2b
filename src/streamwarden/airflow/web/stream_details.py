"""Details of one stream that are read only on request: the pages and the API both ask here."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import HTTPException

from streamwarden.airflow.web.access import declared
from streamwarden.airflow.web.shared_workspace import catalogs
from streamwarden.checkpoint.diagnosis.report import CheckpointReport
from streamwarden.config.loading import STREAMS
from streamwarden.errors import ProcessError, StreamwardenError
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.events import ui_address
from streamwarden.lint.finding import Finding
from streamwarden.lint.linter import lint
from streamwarden.redaction import redacted_text
from streamwarden.services.analysis.linting import gathered
from streamwarden.services.analysis.tuning import gather
from streamwarden.services.fleet.exits.log_tail import end_of_log
from streamwarden.services.overview.anatomy import anatomy
from streamwarden.services.workspace import Workspace
from streamwarden.tuning.advisor import advise
from streamwarden.tuning.recommendation import Recommendation

LINES: Final = 200
LOG_BYTES: Final = 256 * 1024
"""The end of a driver's log that is shown: whatever the job prints, a page of this size."""


@dataclass(frozen=True, slots=True)
class SeenAdvice:
    """The findings of the linter, recommendations from the history, and what could not be read for them."""

    findings: Sequence[Finding]
    recommendations: Sequence[Recommendation]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeenLog:
    """The end of a driver's log, as it is now.

    Args:
        folder: where the whole log is, on the driver's host.
        problem: why it cannot be read.
    """

    folder: str
    lines: Sequence[str]
    problem: str = ""


def advice(space: Workspace, stream: str, query: str | None) -> SeenAdvice:
    """Current advice of the linter and of the history of a stream or a query.

    Raises HTTPException with 404 if there is no such stream or query, StoreError.
    """
    spec, known, now = declared(space, stream, query), catalogs().newest(space), time.time()
    drills = tuple(known.drills.values())
    facts = gathered(declared(space, stream, None), drills, space.store, now, streams=known.catalog.streams.values())
    history = gather(spec, space.store, drills, now, space.thresholds())
    return SeenAdvice(lint(facts), advise(history), (*facts.problems, *history.problems))


def checkpoint(space: Workspace, stream: str, query: str | None) -> tuple[CheckpointReport | None, str]:
    """The checkpoint of a stream or a query, or why it cannot be read.

    Raises HTTPException with 404 if there is no such stream or query.
    """
    spec = declared(space, stream, query)
    try:
        return anatomy(spec), ""
    except StreamwardenError as error:
        return None, str(error)


def drivers(space: Workspace, stream: str, since: float) -> tuple[list[DriverRecord], str | None]:
    """The drivers that were launched or ended since a time (Unix seconds), newest first, and the newest however old: it
    may have run for months. Then the address of Spark's UI, if the newest one lives and serves it.

    Raises StoreError.
    """
    store = space.store.drivers
    newest = store.latest(stream)
    records = list(store.history(stream, since)[::-1]) or ([newest] if newest is not None else [])
    lives = bool(records) and records[0].exit is None
    return records, ui_address(store.events(records[0].driver_id)) if lives else None


def end_of(space: Workspace, stream: str, driver_id: str, count: int = LINES) -> SeenLog:
    """The last `count` lines of a driver's log as it is now.

    Raises HTTPException with 404 if the stream had no such driver.
    """
    record = space.store.drivers.get(driver_id)
    if record is None or record.stream != stream:
        raise HTTPException(404, f"there is no such driver of {stream}")
    try:
        return SeenLog(record.folder, end_of_log(record, count, most=LOG_BYTES))
    except ProcessError as error:
        return SeenLog(record.folder, (), str(error))


def declaration(space: Workspace, stream: str) -> str:
    """The stream's file as it is now, without secrets; empty if it cannot be read."""
    try:
        return redacted_text((space.project / STREAMS / f"{stream}.yaml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""
