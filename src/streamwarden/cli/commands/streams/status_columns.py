"""The columns of `status`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from streamwarden.cli.formatting import NONE, age, ago, number, rate, short, size, status_word
from streamwarden.cli.output import text
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


def _name(each: StreamStatus, _: float) -> str:
    return text(each.stream)


def _state(each: StreamStatus, _: float) -> str:
    return f"[{_COLOURS.get(each.state, 'bold red')}]{each.state}[/]"


def _rate(each: StreamStatus, _: float) -> str:
    return rate(each.rows_in_per_second)


def _lag(each: StreamStatus, _: float) -> str:
    return NONE if each.state in QUIET or each.backlog_seconds is None else short(each.backlog_seconds)


def _health(each: StreamStatus, now: float) -> str:
    """`WARNING 25s`: the worst verdict, and how long ago it was reached."""
    if each.state in QUIET:
        return NONE
    since = "" if each.judged_at is None else f" {short(max(0.0, now - each.judged_at))}"
    return status_word(each.health) + (f"[bold red]{since}[/]" if each.stale else since)


def _restarts(each: StreamStatus, _: float) -> str:
    return f"[yellow]{each.restarts}[/]" if each.restarts else "0"


def _last_exit(each: StreamStatus, now: float) -> str:
    last = each.last_exit or (each.cured.exit if each.cured is not None else None)
    return NONE if last is None else exit_at(last.kind, last.ended_at, now)


def _batch(each: StreamStatus, now: float) -> str:
    return NONE if each.batch_id is None else f"{each.batch_id}, {ago(each.batch_at, now)}"


def _rows(each: StreamStatus, _: float) -> str:
    """`336,776 (18 malformed, 7 of them not kept)`."""
    if not each.malformed:
        return number(each.rows)
    lost = f", [red]{number(each.not_kept)} of them not kept[/]" if each.not_kept else ""
    return f"{number(each.rows)} [yellow]({number(each.malformed)} malformed{lost})[/]"


def _executors(each: StreamStatus, _: float) -> str:
    """`2 (1 lost)`, on a cluster."""
    if each.executors is None:
        return NONE
    return f"{each.executors} [yellow]({each.executors_lost} lost)[/]" if each.executors_lost else f"{each.executors}"


def _incidents(each: StreamStatus, _: float) -> str:
    return f"[red]{each.open_incidents}[/]" if each.open_incidents else "0"


COLUMNS: Final = (
    Column("stream", _name),
    Column("state", _state),
    Column("rows/s", _rate, right=True),
    Column("lag", _lag, right=True),
    Column("health", _health),
    Column("restarts", _restarts, right=True),
    Column("last exit", _last_exit),
    Column("state size", lambda each, _: size(each.state_bytes), right=True, wide=True),
    Column("rows in", _rows, right=True, wide=True),
    Column("batch", _batch, wide=True),
    Column("up", lambda each, now: age(each.since, now), right=True, wide=True),
    Column("incidents", _incidents, right=True, wide=True),
    Column("batches", lambda each, _: number(each.batches), right=True, wide=True),
    Column("executors", _executors, wide=True),
    Column("pid", lambda each, _: NONE if each.pid is None else str(each.pid), right=True, wide=True),
)
"""In the order in which they are shown; of the wide ones, the first that there is room for."""
