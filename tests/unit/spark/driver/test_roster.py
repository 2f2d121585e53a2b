"""Which queries a driver admits, and what it calls them."""

from typing import Any

import pytest

from streamwarden.errors import JobError
from streamwarden.lifecycle.queries import stream_parts
from streamwarden.spark.driver.query_registry import Admission, QueryRegistry
from streamwarden.spark.driver.sessions import StartedQuery
from streamwarden.stream.spec import StreamSpec, TriggerSpec
from support.streams.queries import query_record


def query(checkpoint: str, given: str | None = None, *, number: int = 1, temporary: bool = False) -> StartedQuery:
    return StartedQuery(
        query_id=f"query {checkpoint}",
        run_id=f"run {number}",
        given=given,
        checkpoint=checkpoint,
        trigger=TriggerSpec(),
        temporary=temporary,
    )


def registry(starts: int | None = None, *, alone: bool = False, **changes: Any) -> QueryRegistry:
    spec = StreamSpec(**{"name": "pair", "job": "/j.py", "checkpoint": "/cp", **changes})
    return QueryRegistry(spec, "pair-1", starts=starts, alone=alone, clock=lambda: 5.0)


def admit(of: QueryRegistry, started: StartedQuery) -> Admission:
    admission = of.admit(started)
    of.enter(admission)
    return admission


def names(of: QueryRegistry) -> set[str]:
    return {record.identity for record in of.records()}


def test_the_only_query_bears_the_streams_name() -> None:
    for starts in (1, None):
        mine = registry(starts)
        assert admit(mine, query("/cp", "counts")).record.identity == "pair"
        again = admit(mine, query("/cp", "counts", number=2))
        assert (again.record.identity, again.record.run_id, again.renamed) == ("pair", "run 2", None)


@pytest.mark.parametrize("kwargs", [{"starts": 1}, {"alone": True}])
def test_the_only_query_on_another_checkpoint_is_refused(kwargs: dict[str, Any]) -> None:
    with pytest.raises(JobError, match=r"/elsewhere.*expected the declared checkpoint, /cp"):
        admit(registry(**kwargs), query("/elsewhere"))


def test_a_module_with_build_has_no_second_query() -> None:
    mine = registry(alone=True)
    admit(mine, query("/cp"))
    with pytest.raises(JobError, match="/elsewhere"):
        admit(mine, query("/elsewhere"))


def test_a_script_that_is_known_to_start_two_has_both_named_from_the_first_on() -> None:
    mine = registry(2)
    assert admit(mine, query("/elsewhere", "left")).record.identity == "pair/left"
    assert admit(mine, query("/cp", "right")) == Admission(mine.records()[1])
    assert names(mine) == {"pair/left", "pair/right"}


def test_when_a_second_one_comes_unforeseen_the_first_one_gets_a_name_too() -> None:
    mine = registry()
    assert admit(mine, query("/cp", "left")).record.identity == "pair"
    admission = admit(mine, query("/cp2", "left"))
    assert admission.renamed is not None
    old, new = admission.renamed
    assert (old.identity, new.identity) == ("pair", "pair/left")
    assert admission.record.identity.startswith("pair/left_"), "one name, one checkpoint"
    assert names(mine) == {"pair/left", admission.record.identity}


def test_a_checkpoint_keeps_the_name_that_the_store_knows() -> None:
    mine = registry(2)
    known = query_record("pair", "old_name", driver="pair-0", at=1, checkpoint="/cp/a")
    mine.learn([known])
    assert admit(mine, query("/cp/a", "new name")).record.name == "old_name"
    assert admit(mine, query("/cp/b", "old name")).record.name.startswith("old_name_")


def test_a_query_without_a_checkpoint_has_the_same_name_in_each_life() -> None:
    mine = registry(2)
    place = "/tmp/temporary-1"
    known = query_record("pair", "console", driver="pair-0", at=1, checkpoint=place)
    mine.learn([known])
    assert admit(mine, query("/tmp/temporary-2", "console", temporary=True)).record.name == "console"


PLACES = (("left", "/cp"), ("right", "/cp2"))
DECLARED = {"queries": {"left": "/cp/left", "right": None}}


@pytest.mark.parametrize(
    ("started", "name"),
    [
        (query("/cp/left", "whatever"), "left"),
        (query("file:/cp/left"), "left"),
        (query("/data/right"), "right"),
        (query("/data/x", "Right"), "right"),
    ],
)
def test_a_declared_query_is_recognised_by_its_checkpoint_else_by_its_name(started: StartedQuery, name: str) -> None:
    assert admit(registry(**DECLARED), started).record.name == name


def test_a_query_that_is_not_declared_is_refused_with_the_names_that_are() -> None:
    with pytest.raises(JobError, match=r"a query third.*left, right.*add it to `queries`"):
        admit(registry(**DECLARED), query("/data/third", "third"))


def test_a_declared_query_on_another_checkpoint_is_refused() -> None:
    with pytest.raises(JobError, match=r"/data/x.*/cp/left"):
        admit(registry(**DECLARED), query("/data/x", "left"))


def test_two_queries_for_one_declared_name_are_refused() -> None:
    mine = registry(queries={"left": None})
    admit(mine, query("/a/left"))
    with pytest.raises(JobError, match=r"two queries are taken for the declared query left"):
        admit(mine, query("/b/left"))


def test_a_query_that_does_not_enter_changes_nothing() -> None:
    """Its checkpoint is another driver's: the first query keeps its name."""
    mine = registry()
    admit(mine, query("/cp"))
    assert mine.admit(query("/cp2")).renamed is not None
    assert names(mine) == {"pair"}


@pytest.mark.parametrize("kwargs", [{"starts": 1}, {"alone": True}])
def test_a_script_that_was_reduced_to_one_query_has_the_streams_name_for_it(kwargs: dict[str, Any]) -> None:
    """The names of the two are still in the store; they are judged no more, since the stream's query is newer."""
    mine = registry(**kwargs)
    old = [query_record("pair", name, driver="pair-0", at=1, checkpoint=at) for name, at in PLACES]
    mine.learn(old)
    record = admit(mine, query("/cp")).record
    assert record.identity == "pair"
    (unit,) = stream_parts(StreamSpec(name="pair", job="/j.py", checkpoint="/cp"), [*old, record], now=6.0)
    assert unit.query == record
