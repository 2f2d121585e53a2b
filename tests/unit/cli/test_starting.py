"""`start` waits for every query and its first batch: which those are, and what is said when some do not come."""

import pytest

from streamwarden.checkpoint.logs import LogPosition
from streamwarden.cli.starting import COMMITTED_WITHIN, PLANNED_WITHIN, BatchState, first_batch, not_all, starts_of
from streamwarden.errors import ProcessError
from streamwarden.stream import StreamSpec
from support.queries import query_record

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


def test_where_the_text_does_not_tell_the_first_one_is_enough() -> None:
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
