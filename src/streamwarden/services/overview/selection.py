"""Selects and sorts the rows of the fleet. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field

from streamwarden.health.verdict import Status, worst_of
from streamwarden.services.overview.models import Model
from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.overview.status import State

PAGE: Final = 100
"""Rows of a page."""


class Sort(StrEnum):
    """The orders of rows: the name of each order, and the value of a row in it."""

    key: Callable[[StreamRow], Any]

    def __new__(cls, name: str, key: Callable[[StreamRow], Any]) -> Self:
        made = str.__new__(cls, name)
        made._value_, made.key = name, key
        return made

    TROUBLE = "trouble", lambda row: row.trouble
    STREAM = "stream", lambda row: row.stream
    STATE = "state", lambda row: row.state
    HEALTH = "health", lambda row: row.health.rank
    ROWS_IN = "rows_in", lambda row: row.rows_in_per_second
    ROWS_PROCESSED = "rows_processed", lambda row: row.rows_processed_per_second
    BACKLOG = "backlog", lambda row: row.backlog_seconds
    BATCH = "batch", lambda row: row.batch_seconds
    STATE_SIZE = "state_size", lambda row: row.value("state_size")
    FORECAST = "forecast", lambda row: row.forecast.seconds
    CHECKPOINT = "checkpoint_duration", lambda row: row.value("checkpoint_duration")
    MEMORY = "memory", lambda row: row.value("memory_usage")
    DRILL = "drill", lambda row: row.last_drill and row.last_drill.started_at
    INCIDENTS = "incidents", lambda row: row.open_incidents


ANY: Final = BeforeValidator(lambda value: value or None)
"""A form sends an empty value for "any"."""


class Selection(Model):
    """The rows that are asked for: the query parameters of the fleet page and of the API."""

    model_config = ConfigDict(validate_by_name=True)

    text: str = Field("", alias="q", max_length=200)
    """part of the name, the owner, a tag or the description, in any case"""
    state: Annotated[State | None, ANY] = None
    health: Annotated[Literal["OK", "WARNING", "CRITICAL", "UNKNOWN"] | None, ANY] = None
    """every status but ADVICE, which no stream has"""
    tag: str = Field("", max_length=200)
    trouble: bool = False
    sort: Sort = Sort.TROUBLE
    descending: bool = False
    """largest first; rows without a value come last either way"""
    offset: int = Field(0, ge=0, le=10**6)
    limit: int = Field(PAGE, ge=1, le=1000)


class Totals(Model):
    """Sums over every stream that the user may read, selected or not. One query of several counts with its stream."""

    streams: int
    in_trouble: int
    by_state: Mapping[str, int]
    by_health: Mapping[str, int]
    rows_in_per_second: float
    state_bytes: float
    open_incidents: int
    incident_status: Status
    """the worst of the open incidents, OK without one"""


def select(rows: Iterable[StreamRow], chosen: Selection) -> list[StreamRow]:
    """The rows that fit, sorted; not cut to the page yet."""
    matching = sorted((row for row in rows if _fits(row, chosen)), key=lambda row: (row.trouble, row.stream))
    key = chosen.sort.key
    valued = [row for row in matching if key(row) is not None]
    return sorted(valued, key=key, reverse=chosen.descending) + [row for row in matching if key(row) is None]


def _fits(row: StreamRow, chosen: Selection) -> bool:
    texts = (row.stream, row.owner, row.description, *row.tags)
    return (
        (not chosen.text or any(chosen.text.lower() in word.lower() for word in texts))
        and chosen.state in (None, row.state)
        and chosen.health in (None, row.health)
        and (not chosen.tag or chosen.tag in row.tags)
        and (not chosen.trouble or row.in_trouble)
    )


def totals(rows: Sequence[StreamRow]) -> Totals:
    """The totals of `rows`."""
    whole = [row for row in rows if not row.is_query]
    return Totals(
        streams=len(whole),
        in_trouble=sum(row.in_trouble for row in whole),
        by_state=Counter(row.state for row in whole),
        by_health=Counter(row.health.value for row in whole),
        rows_in_per_second=sum(row.rows_in_per_second or 0.0 for row in whole),
        state_bytes=sum(row.value("state_size") or 0.0 for row in rows),
        open_incidents=sum(row.open_incidents for row in rows),
        incident_status=worst_of((Status.OK, *(row.incident_status for row in rows))),
    )
