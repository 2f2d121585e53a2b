"""The columns of `status`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from streamwarden.cli.formatting import NONE, age, ago, measured, number, rate, short, size, status_word
from streamwarden.cli.output import text
from streamwarden.health.verdict import Status
from streamwarden.services.overview.order import QUIET

if TYPE_CHECKING:
    from streamwarden.services.overview.status import StreamStatus

_COLOURS: Final = {"running": "green", "completed": "dim", "stopped": "dim", "new": "dim", "starting": "cyan"}


@dataclass(frozen=True, slots=True)
class Column:
    """Args: wide: only where there is room; cell: the content, in Rich's markup."""

    heading: str
    cell: Callable[[StreamStatus, float], str]
    right: bool = False
    wide: bool = False


def exit_at(kind: str, at: float, now: float) -> str:
    """`killed 22:04`; with the day if it is longer ago."""
    return f"{kind} {datetime.fromtimestamp(at).strftime('%H:%M' if now - at < 86400 else '%b %d')}"


def _health(status: StreamStatus, now: float) -> str:
    """`WARNING 25s`: the status, and how long ago the checks were run."""
    if not status.shows_health:
        return NONE
    since = "" if status.judged_at is None else f" {short(max(0.0, now - status.judged_at))}"
    return status_word(status.health) + (f"[bold red]{since}[/]" if status.stale else since)


def _last_exit(status: StreamStatus, now: float) -> str:
    last = status.last_exit or (status.cured.exit if status.cured is not None else None)
    return NONE if last is None else exit_at(last.kind, last.ended_at, now)


def _batch(status: StreamStatus, now: float) -> str:
    return NONE if status.batch_id is None else f"{status.batch_id}, {ago(status.batch_at, now)}"


def _rows(status: StreamStatus, _: float) -> str:
    """`336,776 (12 % malformed, 7 not kept)`: the share is that of the newest batches."""
    notes = []
    if status.malformed_share:
        notes.append(f"[yellow]{measured(status.malformed_share, 'share')} malformed[/]")
    if status.not_kept:
        notes.append(f"[red]{number(status.not_kept)} not kept[/]")
    return number(status.rows) + (f" ({', '.join(notes)})" if notes else "")


def _executors(status: StreamStatus, _: float) -> str:
    """`2 (1 lost)`, on a cluster."""
    lost = f" [yellow]({status.executors_lost} lost)[/]" if status.executors_lost else ""
    return NONE if status.executors is None else f"{status.executors}{lost}"


def _incidents(status: StreamStatus, _: float) -> str:
    colours = {Status.WARNING: "yellow", Status.CRITICAL: "red"}
    return _alarming(status.open_incidents, colours.get(status.incident_status, "dim"))


def _alarming(count: int, colour: str) -> str:
    return f"[{colour}]{count}[/]" if count else "0"


COLUMNS: Final = (
    Column("stream", lambda status, _: text(status.stream)),
    Column("state", lambda status, _: f"[{_COLOURS.get(status.state, 'bold red')}]{status.state}[/]"),
    Column("rows/s", lambda status, _: rate(status.rows_in_per_second), right=True),
    Column("lag", lambda status, _: short(None if status.state in QUIET else status.backlog_seconds), right=True),
    Column("health", _health),
    Column("restarts", lambda status, _: _alarming(status.restarts, "yellow"), right=True),
    Column("last exit", _last_exit),
    Column("state size", lambda status, _: size(status.state_bytes), right=True, wide=True),
    Column("rows in", _rows, right=True, wide=True),
    Column("batch", _batch, wide=True),
    Column("up", lambda status, now: age(status.since, now), right=True, wide=True),
    Column("incidents", _incidents, right=True, wide=True),
    Column("batches", lambda status, _: number(status.batches), right=True, wide=True),
    Column("standby", lambda status, _: status.standby or NONE, wide=True),
    Column("pool", lambda status, _: status.pool or NONE, wide=True),
    Column("group", lambda status, _: status.group or NONE, wide=True),
    Column("executors", _executors, wide=True),
    Column("pid", lambda status, _: NONE if status.pid is None else str(status.pid), right=True, wide=True),
)
"""In the order in which they are shown; of the wide ones, the first that there is room for."""
