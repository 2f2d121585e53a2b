"""What a tab of a stream's page declares, and what it is given to read with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import NAME_PATTERN

RANGES: Final = {"15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800, "90d": 7776000}
"""Name -> seconds of the ranges of charts that can be chosen."""
LAUNCH: Final = "launch"
"""The range since the newest launch of the stream's driver."""


class Asked(BaseModel):
    """The query parameters of the tabs."""

    query: str | None = Field(None, pattern=f"^{NAME_PATTERN.pattern}$", max_length=200)
    """one of several queries of the stream"""
    part: str = ""
    """the part of the tab that is refreshed; empty, or one that it does not have, for the whole page"""
    range: str = Field(LAUNCH, pattern="^(" + "|".join((LAUNCH, *RANGES)) + ")$")
    driver: str = Field("", pattern=r"^[A-Za-z0-9_.-]*$", max_length=200)
    """whose log is shown; empty for the one that failed last"""
    level: Literal["", "warning", "error"] = ""
    """the least level of the log's records that are shown; empty for all of them"""
    q: str = Field("", max_length=200)
    """what the records contain"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A stream's page, as a user opened it.

    Args:
        row: of the stream, or of the query that was asked for.
        rows: of the stream and its queries.
        at: when the rows were read, Unix seconds.
        changes: whether the user may change the runs of the stream's DAG.
    """

    space: Workspace
    user: Any
    stream: str
    row: StreamRow
    rows: Sequence[StreamRow]
    at: float
    changes: bool
    asked: Asked

    @property
    def concerned(self) -> list[str]:
        """The stream with all its queries, or the one query that was asked for."""
        return [self.row.stream] if self.row.is_query else [row.stream for row in self.rows]


class Of(Enum):
    """What a tab of a stream with several queries shows."""

    STREAM = auto()  # the stream as a whole: its file, its drivers
    QUERY = auto()  # each query on its own
    BOTH = auto()  # the whole stream, or one query of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One tab of a stream's page. Its address is `/streams/STREAM/NAME`.

    Args:
        name: empty for the tab that a stream begins with.
        parts: name -> template of each part that refreshes itself.
        read: what the templates show of a part, or with an empty name of the whole tab.
        every: seconds between two refreshes of its parts.
        page: the template of the whole page.
    """

    name: str
    label: str
    parts: Mapping[str, str]
    read: Callable[[Opened, str], Mapping[str, Any]]
    every: int = 5
    of: Of = Of.STREAM
    page: str = "stream_tab.html"
    draws: bool = False
    """whether it has charts"""
