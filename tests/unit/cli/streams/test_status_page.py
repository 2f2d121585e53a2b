"""The screen of `status`: what a person on call sees of thirteen streams in a terminal of 80 columns."""

from __future__ import annotations

import time
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from streamwarden.cli.commands.streams import status
from streamwarden.cli.commands.streams.status import page
from streamwarden.cli.exit_codes import Exit
from streamwarden.errors import StoreError
from streamwarden.health.evaluations import LastRound
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.services.overview.order import by_trouble
from streamwarden.services.overview.standing import LACKING
from streamwarden.services.overview.status import CuredCrash, StreamStatus
from support.clock import time_with
from support.command_line import CommandLine

NOW = time.mktime((2026, 11, 23, 22, 30, 0, 0, 0, -1))
KILLED = ExitRecord(kind=ExitKind.KILLED, ended_at=NOW - 26 * 60, signal=9, message="no memory")


def stream(name: str, state: Any = "running", health: Status = Status.OK, **fields: Any) -> StreamStatus:
    running: dict[str, Any] = {"rows_in_per_second": 1234.5, "backlog_seconds": 3.0, "since": NOW - 7200, "batches": 99}
    if state in LACKING:
        health, fields = Status.CRITICAL, {"health_causes": (state,), **fields}
    judged = {"health": health, "judged_at": NOW - 25}
    return StreamStatus(stream=name, state=state, **{**(running if state == "running" else {}), **judged, **fields})


CURED = CuredCrash(exit=KILLED, restarted_at=NOW - 26 * 60 + 14)
THIRTEEN = [
    stream("aircraft_rotations"),
    stream("device_heartbeats", health=Status.WARNING, health_causes=("backlog",), health_reason="12m of work behind"),
    stream("device_heartbeats_event", "new"),
    stream("event_dedup", cured=CURED, restarts=1),
    stream("event_windows", "down", last_exit=KILLED, problem="killed by signal 9 (no memory)", restarts=5),
    stream("flight_dedup"),
    stream("flight_dedup_unbounded", "new"),
    stream(
        "flight_departures",
        health=Status.CRITICAL,
        health_causes=("state_size", "memory_usage"),
        health_reason="6.0 GB",
    ),
    stream("flight_weather", "stopped", last_exit=replace(KILLED, kind=ExitKind.STOPPED), health=Status.CRITICAL),
    stream("state_evolution", "broken", problem="config/streams/state_evolution.yaml: no key `colour`"),
    stream("user_action_counts"),
    stream("user_sessions", "new"),
    stream("windowed_values", "starting"),
]


JUDGED = LastRound(at=NOW - 25, late=False, text="judged 25 s ago")


def shown(found: list[StreamStatus], *, width: int = 80, wide: bool = False, everything: bool = False) -> list[str]:
    screen = StringIO()
    console = Console(file=screen, width=width, color_system=None)
    console.print(page(found, JUDGED, NOW, wide=wide, everything=everything))
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def test_thirteen_streams_fit_on_one_screen_of_80_columns() -> None:
    lines = shown(THIRTEEN)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["stream", "state", "rows/s", "lag", "health", "restarts", "last", "exit"]
    assert "flight_departures running" in " ".join(" ".join(lines).split())
    assert "1,23" in " ".join(lines), "rows a second"


def test_trouble_comes_first_and_each_has_its_reason_below() -> None:
    lines = shown(THIRTEEN)
    names = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert names[:6] == [
        "event_windows", "flight_departures", "state_evolution", "device_heartbeats", "windowed_values", "event_dedup",
    ]  # fmt: skip
    below = {line.split()[0]: lines[at + 1] for at, line in enumerate(lines[1:-1], 1) if not line.startswith(" ")}
    assert below["event_windows"] == "    killed by signal 9 (no memory)"
    assert below["flight_departures"] == "    state_size: 6.0 GB (also memory_usage)"
    assert below["device_heartbeats"] == "    backlog: 12m of work behind"


def test_a_stream_whose_newest_drill_lost_rows_comes_before_a_broken_file_and_fails_the_command() -> None:
    lost = {"health_causes": ("drill_kill",), "health_reason": "the newest drill DEVIATED: 12 lost"}
    found = [stream("a_broken", "broken", problem="no key `colour`"), stream("b", health=Status.CRITICAL, **lost)]
    assert [row.stream for row in by_trouble(found)] == ["b", "a_broken"]
    assert found[1].in_trouble
    assert "    drill_kill: the newest drill DEVIATED: 12 lost" in shown(found)


def test_a_long_reason_takes_two_lines_among_many_streams_and_is_whole_alone() -> None:
    down = stream("a", "down", problem="because " * 100 + "END")
    many, alone = shown([down, stream("b")]), shown([down])
    assert [line.startswith("    ") for line in many[2:6]] == [True, True, False, False]
    assert many[3].endswith("…")
    assert "END" in "".join(alone)
    assert "END" in "".join(shown([down, stream("b")], width=200))


def test_a_crash_that_a_restart_cured_is_shown() -> None:
    lines = shown(THIRTEEN)
    assert any("last exit: killed 22:04, restarted after 14s" in line for line in lines)


def test_streams_that_never_started_are_one_line_unless_all_are_wanted() -> None:
    assert "3 never started: device_heartbeats_event, flight_dedup_unbounded, user_sessions" in " ".join(
        shown(THIRTEEN)
    )
    lines = shown(THIRTEEN, everything=True)
    assert not any("never started" in line for line in lines)
    assert sum(" new " in line for line in lines) == 3


def test_a_stream_that_was_stopped_on_purpose_is_not_in_trouble_whatever_its_last_verdict_was() -> None:
    stopped = next(each for each in THIRTEEN if each.state == "stopped")
    assert not stopped.in_trouble
    (line,) = [each for each in shown(THIRTEEN) if each.startswith("flight_weather")]
    assert "CRITICAL" not in line
    assert "stopped 22:04" in line


def test_a_wider_terminal_shows_as_many_columns_as_fit_and_wide_all() -> None:
    found = [replace(each, state_bytes=2e9, batch_id=7, batch_at=NOW - 3, pid=4711) for each in THIRTEEN]
    headings = {width: shown(found, width=width)[0] for width in (80, 100, 120, 200)}
    assert "state size" not in headings[80]
    assert "state size" in headings[100]
    assert "batch " in headings[120]
    assert "pid" not in headings[120]
    assert "pid" in headings[200]
    assert max(map(len, shown(found, width=120))) <= 120
    assert "pid" in shown(found, width=160, wide=True)[0]


def test_the_queries_of_a_stream_stay_below_it_and_count_for_it() -> None:
    found = [stream("a"), stream("b"), stream("b/one"), stream("b/two", "ended", problem="failed")]
    assert [each.stream for each in by_trouble(found)] == ["b", "b/one", "b/two", "a"]


def test_the_last_line_says_when_the_streams_were_judged_last() -> None:
    assert shown([stream("a")])[-1] == "judged 25 s ago"


def test_a_name_that_is_too_long_is_shortened_and_the_columns_stay() -> None:
    lines = shown([stream("n" * 60, health=Status.CRITICAL, health_causes=("backlog",), health_reason="late")])
    assert max(map(len, lines)) <= 80
    assert "CRITICAL 25s" in lines[1]


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each wait of `--watch`; Ctrl-C comes in the third."""
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(status, "time", time_with(sleep))
    return waits


def test_watch_redraws_until_ctrl_c_and_ends_well(cli: CommandLine, ticks: list[float]) -> None:
    cli.project.stream("a")
    answer = cli("status", "--watch")
    assert (answer.code, answer.err) == (Exit.OK, "")
    assert ticks == [5.0] * 3
    assert cli("status", "--watch", "--every", "soon").code == Exit.USAGE
    assert cli("status", "--watch", "--json").code == Exit.USAGE


def test_watch_keeps_the_last_state_while_the_store_is_unavailable(
    cli: CommandLine, ticks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.project.stream("a")
    gathered = iter([[stream("a")]])

    def gather(*_: Any, **__: Any) -> list[StreamStatus]:
        for found in gathered:
            return found
        raise StoreError("the store does not answer")

    monkeypatch.setattr("streamwarden.services.overview.status.gather", gather)
    answer = cli("status", "--watch")
    assert answer.code == Exit.OK
    assert "running" in answer.out
    assert "not updated since, because the store does not answer" in " ".join(answer.out.split())
