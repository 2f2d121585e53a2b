"""Names of queries, and what there is to judge of a stream that has several."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from streamwarden.lifecycle.queries import Part, identity, is_name, name_of, owner, stream_parts
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spec import NAME_PATTERN, StreamSpec, TriggerSpec
from support.streams.queries import query_record

NOW = 1_800_000_000.0


record = partial(query_record, "pair", driver="pair-1", at=NOW - 10)


def spec(**changes: Any) -> StreamSpec:
    sink = ParquetSink(path="/out")
    return StreamSpec(**{"name": "pair", "job": "/j.py", "checkpoint": "/data/pair", "sink": sink, **changes})


@pytest.mark.parametrize(
    ("given", "checkpoint", "name"),
    [
        ("by_page", "/data/cp/1", "by_page"),
        ("By Page!", "/data/cp/1", "by_page"),
        (None, "/data/cp/by-page", "by_page"),
        (None, "/data/by_page/_checkpoint", "by_page"),
        (None, "s3a://bucket/by_page/checkpoints/", "by_page"),
        (None, "/data/cp/2024", "q2024"),
        ("../../etc", "/data/cp/1", "etc"),
        ("\u65e5\u672c", "/data/cp/counts", "counts"),
        ("x" * 100, "/data/cp/1", "x" * 63),
        (None, "/tmp/temporary-07fe3fd1-3bd5", "temporary"),
        (None, "/checkpoint", "query"),
    ],
)
def test_a_query_is_named_by_its_script_or_by_its_folder(given: str | None, checkpoint: str, name: str) -> None:
    assert name_of(given, checkpoint, {}) == name
    assert NAME_PATTERN.fullmatch(name)


def test_a_name_is_given_to_one_checkpoint_only() -> None:
    taken = {"counts": "/a/counts"}
    assert name_of(None, "/a/counts", taken) == "counts"
    other = name_of(None, "/b/counts", taken)
    assert other != "counts"
    assert other == name_of(None, "/b/counts", taken), "it is the same in each life"
    assert NAME_PATTERN.fullmatch(name_of("x" * 100, "/b", {"x" * 63: "/a"}))


@pytest.mark.parametrize("text", ["pair/../x", "pair/", "/pair", "a/b/c", "pair/By", "pair b", "", "pair/'; --"])
def test_no_other_text_is_taken_for_a_name(text: str) -> None:
    assert not is_name(text)


def test_a_name_leads_back_to_its_stream() -> None:
    assert is_name("pair/plain")
    assert (owner("pair/plain"), owner("pair")) == ("pair", "pair")
    assert (identity("pair", "plain"), identity("pair", "")) == ("pair/plain", "pair")


def test_a_stream_with_one_query_is_its_query_with_its_own_trigger() -> None:
    assert [(unit.spec, unit.part) for unit in stream_parts(spec(), (), NOW)] == [(spec(), Part.WHOLE)]
    (unit,) = stream_parts(spec(), [record("", checkpoint="/data/pair")], NOW)
    assert unit.spec == replace(spec(), trigger=TriggerSpec(processing_time=7.0))
    assert unit.part is Part.WHOLE


def test_each_of_several_has_name_checkpoint_and_trigger_and_none_has_the_streams_source() -> None:
    driver, left, right = stream_parts(
        spec(), [record("left"), record("right", trigger=TriggerSpec(real_time=5.0))], NOW
    )
    assert (driver.spec, driver.part) == (spec(), Part.DRIVER)
    assert [(each.spec.name, each.spec.checkpoint, each.part) for each in (left, right)] == [
        ("pair/left", "/data/left", Part.QUERY),
        ("pair/right", "/data/right", Part.QUERY),
    ]
    assert (left.spec.trigger.interval, right.spec.trigger.interval) == (7.0, 5.0)
    assert {left.spec.source.kind, right.spec.source.kind} == {"script"}
    assert left.spec.sink.kind == "script"


def test_a_declared_query_is_there_before_it_was_ever_seen() -> None:
    declared = spec(queries={"left": "/data/left", "right": None})
    _, left, right = stream_parts(declared, [record("left")], NOW)
    assert left.query is not None
    assert right.query is None
    assert right.spec.checkpoint == "/data/pair/right"


def test_a_query_that_the_script_no_longer_starts_is_no_longer_judged() -> None:
    old, new = record("old", driver="pair-1", at=NOW - 5000), record("new", driver="pair-2", at=NOW - 1000)
    assert [unit.spec.name for unit in stream_parts(spec(), [old, new], NOW)] == ["pair", "pair/new"]


def test_while_a_driver_starts_its_queries_those_of_the_last_one_stay() -> None:
    old, new = record("old", driver="pair-1", at=NOW - 5000), record("new", driver="pair-2", at=NOW - 10)
    assert [unit.spec.name for unit in stream_parts(spec(), [old, new], NOW)] == ["pair", "pair/new", "pair/old"]


def test_a_script_that_starts_one_query_again_is_its_query_again() -> None:
    two = [record(name, at=NOW - 5000) for name in ("left", "right")]
    (unit,) = stream_parts(spec(), [*two, record("", driver="pair-2", at=NOW - 1000)], NOW)
    assert (unit.spec.name, unit.part) == ("pair", Part.WHOLE)
    since = stream_parts(spec(), [record("", at=NOW - 9000), *two], NOW)
    assert [unit.spec.name for unit in since] == ["pair", "pair/left", "pair/right"]
