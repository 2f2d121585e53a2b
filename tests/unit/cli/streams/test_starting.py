"""`start` waits for every query and its first batch: which those are, and what is said when some do not come."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.cli.commands.streams import starting
from streamwarden.cli.commands.streams.starting import (
    COMMITTED_WITHIN,
    PLANNED_WITHIN,
    BatchState,
    first_batch,
    not_all,
    starts_of,
)
from streamwarden.cli.exit_codes import Exit
from streamwarden.errors import ProcessError
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.services.fleet.exits.exit_recorder import Observation
from streamwarden.services.fleet.starting import Started
from streamwarden.stream.spec import StreamSpec
from support.streams.queries import query_record

SPEC = StreamSpec(name="a", job="/j.py", checkpoint="/cp")
DECLARED = StreamSpec(name="a", job="/j.py", checkpoint="/cp", queries={"left": "/cp/l", "right": None})
LEFT, RIGHT = (query_record("a", name, driver="a-2", at=1.0) for name in ("left", "right"))
OLD = query_record("a", "right", driver="a-1", at=0.0)


def test_the_declared_ones_are_waited_for_by_name() -> None:
    some = starts_of(DECLARED, [LEFT, OLD], "a-2", count=None)
    assert (some.complete, some.missing) == (False, ("right",))
    assert starts_of(DECLARED, [LEFT, RIGHT], "a-2", count=None).complete


def test_otherwise_as_many_as_the_text_starts() -> None:
    assert not starts_of(SPEC, [LEFT], "a-2", count=2).complete
    assert starts_of(SPEC, [LEFT, RIGHT], "a-2", count=2).complete


def test_with_an_unknown_query_count_one_started_query_is_enough() -> None:
    assert not starts_of(SPEC, [OLD], "a-2", count=None).complete, "a run of the last driver does not count"
    assert starts_of(SPEC, [LEFT], "a-2", count=None).complete


def test_a_query_that_failed_at_once_has_started_and_does_not_run() -> None:
    broken = query_record("a", "right", driver="a-2", at=1.0, ended_at=2.0, error="ValueError: x")
    starts = starts_of(SPEC, [LEFT, broken], "a-2", count=2)
    assert starts.complete
    assert ([each.name for each in starts.running], [each.name for each in starts.failed]) == (["left"], ["right"])


def test_what_did_not_start_is_named() -> None:
    error = not_all(
        starts_of(DECLARED, [LEFT], "a-2", None),
        120.0,
        ProcessError("late", where="/d", next_step="read /d/driver.log"),
    )
    assert "1 of 2 queries started within 2m: left; not started: right" in str(error)
    assert "read /d/driver.log" in error.next_step
    none = not_all(starts_of(SPEC, [OLD], "a-2", None), 120.0, ProcessError("late", where="/d", next_step="read it"))
    assert none.observed == "0 of 1 query started within 2m"
    assert "the driver continues" in none.next_step


def position(planned: int | None, committed: int | None, *, at: float = 50.0) -> LogPosition:
    """The logs of a checkpoint whose newest entries were written at `at`."""
    ended = None if committed is None else at
    return LogPosition(query_id="q", planned=planned, planned_at=at, committed=committed, committed_at=ended)


@pytest.mark.parametrize(
    ("logs", "state", "summary"),
    [
        (None, BatchState.WAITING, "no batch yet: it waits for input"),
        (position(4, 4, at=9.0), BatchState.WAITING, "no batch yet: it waits for input"),
        (position(0, None), BatchState.RUNNING, "batch 0 is running"),
        (position(5, 4, at=9.0), BatchState.RUNNING, "batch 5 is running"),
        (position(5, 5), BatchState.COMMITTED, "batch 5 is committed"),
        (position(6, 5), BatchState.COMMITTED, "batch 5 is committed"),
    ],
)
def test_what_a_query_has_done_since_its_start_at_10(logs: LogPosition | None, state: BatchState, summary: str) -> None:
    found = first_batch(logs, since=10.0)
    assert (found.state, found.summary) == (state, summary)


def test_a_batch_that_runs_is_waited_for_longer_than_input() -> None:
    waiting, running = first_batch(None, 10.0), first_batch(position(0, None), 10.0)
    assert not waiting.settled(PLANNED_WITHIN - 1, COMMITTED_WITHIN)
    assert waiting.settled(PLANNED_WITHIN, COMMITTED_WITHIN)
    assert not running.settled(PLANNED_WITHIN, COMMITTED_WITHIN)
    assert running.settled(COMMITTED_WITHIN, COMMITTED_WITHIN)
    assert first_batch(position(0, 0), 10.0).settled(0.0, COMMITTED_WITHIN)
    assert waiting.settled(0.0, 0.0), "a driver that was found running is not waited for"


class Fleet:
    """A driver that was launched at 0, whose query started at 10, and that ends as `exit` says."""

    def __init__(self, exit: ExitRecord | None) -> None:
        record = DriverRecord(
            driver_id="a-2", stream="a", checkpoint="/cp", token=1, folder="/d", launched_by="ann", launched_at=0.0
        )
        self.seen = Observation(alive=exit is None, exit=exit, record=record)

    def observe(self, driver_id: str) -> Observation:
        return self.seen

    def wait(self, driver_id: str, *, timeout: float, until: Callable[[Observation], bool]) -> Observation:
        assert until(self.seen)
        return self.seen

    def log_path(self, driver_id: str) -> Path:
        return Path("/d/driver.log")


def report(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    logs: LogPosition,
    exit: ExitRecord | None = None,
    reattached: bool = False,
) -> tuple[int, str]:
    """Exit code and output of `start` for a driver with one query that is at `logs`."""
    fleet, queries = Fleet(exit), [query_record("a", "", driver="a-2", at=10.0)]
    store = SimpleNamespace(queries=SimpleNamespace(of=lambda stream: queries))
    space: Any = SimpleNamespace(fleet=fleet, store=store)
    monkeypatch.setattr(starting, "_position", lambda query, spec: logs)
    monkeypatch.setattr(starting, "PLANNED_WITHIN", 0.0)
    started = Started(fleet.seen.record, reattached=reattached)
    return starting.report_start(space, SPEC, started, within=5.0), capsys.readouterr().out


def test_a_start_reports_the_first_batch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = report(monkeypatch, capsys, logs=position(0, 0))
    assert (code, "query a started; batch 0 is committed" in shown) == (Exit.OK, True), shown
    code, shown = report(monkeypatch, capsys, logs=position(None, None))
    assert (code, "query a started; no batch yet: it waits for input" in shown) == (Exit.OK, True), shown
    code, shown = report(monkeypatch, capsys, logs=position(4, 4), reattached=True)
    assert "driver a-2 runs already" in shown
    assert "query a runs; batch 4 is committed" in shown


def test_a_driver_that_failed_in_its_first_batch_is_an_error_with_cause_and_next_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = ExitRecord(
        kind=ExitKind.FAILED, ended_at=4.0, error_class="KeyError", message="no column x", next_step="correct the job"
    )
    code, shown = report(monkeypatch, capsys, logs=position(0, None), exit=failed)
    assert code == Exit.BAD
    assert "a: ended after 4.0 s: failed (KeyError: no column x)" in shown
    assert "next: correct the job" in shown
    assert "is running" not in shown


def test_a_driver_that_was_stopped_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = ExitRecord(kind=ExitKind.STOPPED, ended_at=4.0, message="stopped by ann (command line): an upgrade")
    _, shown = report(monkeypatch, capsys, logs=position(0, 0), exit=stopped)
    assert "a: ended after 4.0 s: stopped by ann (command line): an upgrade" in shown


def test_a_driver_that_read_its_input_and_ended_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = ExitRecord(kind=ExitKind.COMPLETED, ended_at=20.0, message="all its input is processed")
    code, shown = report(monkeypatch, capsys, logs=position(1, 1), exit=done)
    assert code == Exit.OK
    assert "batch 1 is committed" in shown
    assert "ended after 20.0 s: completed (all its input is processed)" in shown
