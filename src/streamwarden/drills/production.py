"""When the live stream may be drilled: the section `production` of a drill's file."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from streamwarden.drills.records.sections import require
from streamwarden.errors import InvalidValue
from streamwarden.units import Seconds

_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")


class Weekday(StrEnum):
    """In the order of `datetime.weekday`."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


WORKDAYS: Final = tuple(Weekday)[:5]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedHours:
    """The hours of the week in which a live stream may be hit, by the clock on the wall in one time zone."""

    start: str
    """from this time on, `HH:MM`, in quotes"""
    end: str
    """up to this time, `HH:MM` and later than `start`, in quotes; `24:00` is midnight"""
    days: tuple[Weekday, ...] = WORKDAYS
    """the days of the week: `mon`, `tue`, `wed`, `thu`, `fri`, `sat`, `sun`"""
    timezone: str = "UTC"
    """the time zone of `start`, `end` and `days`, such as `Europe/Berlin`"""

    def __post_init__(self) -> None:
        for key in ("start", "end"):
            value = getattr(self, key)
            require(_TIME.fullmatch(value) is not None, key, value, 'a time from 00:00 to 24:00, such as `"09:00"`')
        require(self.start < self.end, "end", self.end, f"a time after `start`, which is {self.start}")
        require(bool(self.days), "days", [], "at least one day")
        _zone(self.timezone)

    def __contains__(self, at: float) -> bool:
        """Whether the drill may strike at this Unix time."""
        local = datetime.fromtimestamp(at, UTC).astimezone(_zone(self.timezone))
        return tuple(Weekday)[local.weekday()] in self.days and self.start <= f"{local:%H:%M}" < self.end

    def clock(self, at: float) -> str:
        """`Mon 2026-11-23 19:30 Europe/Berlin`: a Unix time by the clock on the wall."""
        local = datetime.fromtimestamp(at, UTC).astimezone(_zone(self.timezone))
        return f"{local:%a %Y-%m-%d %H:%M} {self.timezone}"

    def __str__(self) -> str:
        return f"{self.start} to {self.end} on {', '.join(self.days)} ({self.timezone})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductionSpec:
    """When the live stream may be hit, and how long an approval is waited for."""

    allowed_hours: AllowedHours
    """when the live stream may be hit"""
    approval_within: Seconds = 4 * 3600.0
    """how long a person in Airflow has time to answer; without an answer the drill is aborted"""
    approvers: tuple[str, ...] = ()
    """ids of the Airflow users who may answer; empty: every user whom Airflow lets respond to a task of this DAG"""

    def __post_init__(self) -> None:
        require(all(approver.strip() for approver in self.approvers), "approvers", list(self.approvers), "ids of users")
        require(self.approval_within > 0, "approval_within", self.approval_within, "a positive duration")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # an unknown name, a path, a folder of the database
        raise InvalidValue(repr(name), key="timezone", allowed="a time zone such as Europe/Berlin or UTC") from error
