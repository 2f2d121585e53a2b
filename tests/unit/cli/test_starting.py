"""`start` waits for every query: which those are, and what is said when some do not come."""

from streamwarden.cli.starting import not_all, starts_of
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
