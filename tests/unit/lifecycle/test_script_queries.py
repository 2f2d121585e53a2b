"""What a script names of a query, beside what its stream's file declares."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from streamwarden.lifecycle.script_queries import (
    NamedInput,
    NamedQuery,
    declared_checkpoint,
    input_contradictions,
    query_contradictions,
    taken_by,
    writing_function,
)
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import StreamSpec, TriggerSpec


def spec(**changes: Any) -> StreamSpec:
    defaults: dict[str, Any] = {"checkpoint": "/data/checkpoints/words", "data": "/data"}
    return StreamSpec(**{"name": "words", "job": "/p/words.py", **defaults, **changes})


def differences(of: StreamSpec, *, written: bool = True, **named: Any) -> list[tuple[str, str, str]]:
    query = NamedQuery(**named)
    found = query_contradictions(of, query, single=True, trigger_written=written)
    return [(each.subject, each.named, each.declared) for each in found]


WRITES = spec(sink=ParquetSink(path="/data/output/words"), trigger=TriggerSpec(processing_time=5.0))


def test_a_script_that_names_nothing_contradicts_nothing() -> None:
    assert differences(WRITES) == []


@pytest.mark.parametrize("path", ["checkpoints/words", "./checkpoints/words/", "/data/checkpoints/words"])
def test_a_relative_path_of_a_script_is_below_the_data_folder(path: str) -> None:
    assert differences(WRITES, checkpoint=path, path="output/words", format="parquet") == []


def test_each_value_that_differs_is_named_with_the_declared_one() -> None:
    trigger = TriggerSpec(processing_time=10.0)
    assert differences(WRITES, checkpoint="cp", path="out", format="json", trigger=trigger) == [
        ("checkpoint", "/data/cp", "/data/checkpoints/words"),
        ("output format", "json", "parquet"),
        ("output folder", "/data/out", "/data/output/words"),
        ("trigger", "processing_time: 10.0 s", "processing_time: 5.0 s"),
    ]


def test_error_names_the_next_step_and_that_a_checkpoint_is_optional() -> None:
    (found,) = query_contradictions(spec(), NamedQuery(checkpoint="/cp"), single=True, trigger_written=False)
    assert found.observed == "the script names the checkpoint /cp"
    assert found.expected == "the checkpoint that the stream's file declares, /data/checkpoints/words"
    assert found.next_step == (
        "make the script and `checkpoint` the same; without a checkpoint in the script, Streamwarden sets the "
        "declared one"
    )


def test_a_trigger_does_not_contradict_a_file_that_names_none() -> None:
    assert differences(spec(), written=False, trigger=TriggerSpec(processing_time=10.0)) == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (TriggerSpec(processing_time=0.0), TriggerSpec(processing_time=None), True),
        (TriggerSpec(processing_time=None, available_now=True), TriggerSpec(available_now=True), True),
        (TriggerSpec(available_now=True), TriggerSpec(processing_time=2.0), False),
        (TriggerSpec(real_time=5.0), TriggerSpec(processing_time=5.0), False),
    ],
)
def test_triggers_are_the_same_if_they_start_batches_at_the_same_times(
    one: TriggerSpec, other: TriggerSpec, same: bool
) -> None:
    assert (differences(spec(trigger=one), trigger=other) == []) is same


def test_rows_that_a_function_of_the_script_writes_contradict_no_format() -> None:
    assert differences(WRITES, format="foreachBatch") == []


def test_a_topic_is_compared() -> None:
    topic = spec(sink=KafkaSink(connection="c", topic="counts", key=("id",)))
    assert differences(topic, format="kafka", topic="counts") == []
    assert differences(topic, format="kafka", topic="other") == [("topic", "other", "counts")]


def test_of_several_queries_each_has_its_own_output() -> None:
    query = NamedQuery(checkpoint="/elsewhere", path="/out")
    assert query_contradictions(WRITES, query, single=False, trigger_written=True) == ()


DECLARED = {"left": "/data/cp/left", "right": None}


@pytest.mark.parametrize(
    ("named", "declared"),
    [
        ({"checkpoint": "cp/left"}, []),
        ({"checkpoint": "/any/right"}, []),
        ({"checkpoint": "/any/x", "name": "Right"}, []),
        ({"checkpoint": "/any/x", "name": "left"}, ["/data/cp/left"]),
        ({"checkpoint": "/any/x"}, ["one of the declared queries left, right"]),
        ({"name": "left"}, []),
    ],
)
def test_declared_queries_have_their_declared_checkpoints(named: dict[str, str], declared: list[str]) -> None:
    found = differences(spec(queries=DECLARED), **named)
    assert [each for _, _, each in found] == declared


def test_the_input_of_a_script_with_one_source_is_compared() -> None:
    reads = spec(source=FilesSource(path="/data/input/words"))
    assert input_contradictions(reads, [NamedInput(path="input/words")]) == ()
    assert input_contradictions(reads, [NamedInput()]) == ()
    (found,) = input_contradictions(reads, [NamedInput(path="input/word", line=3)])
    assert (found.subject, found.named, found.declared, found.line) == (
        "input folder",
        "/data/input/word",
        "/data/input/words",
        3,
    )
    assert input_contradictions(reads, [NamedInput(path="input/word"), NamedInput(path="input/names")]) == ()


@pytest.mark.parametrize(
    ("changes", "named", "starts", "place"),
    [
        ({}, {}, 1, "/data/checkpoints/words"),
        ({}, {"name": "counts"}, 1, "/data/checkpoints/words"),
        ({}, {}, None, "/data/checkpoints/words"),
        ({}, {"name": "By Page"}, 2, "/data/checkpoints/words/by_page"),
        ({}, {"path": "output/pages"}, 2, "/data/checkpoints/words/pages"),
        ({}, {"format": "console"}, 2, "/data/checkpoints/words/console"),
        ({"queries": DECLARED}, {"name": "left"}, 2, "/data/cp/left"),
        ({"queries": DECLARED}, {"name": "right"}, 2, "/data/checkpoints/words/right"),
        ({"queries": DECLARED}, {}, 2, None),
        ({"queries": DECLARED}, {"name": "third"}, 2, None),
        ({"queries": {"left": None}}, {}, 1, "/data/checkpoints/words/left"),
    ],
)
def test_a_query_without_a_checkpoint_gets_the_declared_one(
    changes: dict[str, Any], named: dict[str, str], starts: int | None, place: str | None
) -> None:
    assert declared_checkpoint(spec(**changes), NamedQuery(**named), starts=starts) == place


def test_no_two_queries_share_a_checkpoint_or_have_one_inside_the_others() -> None:
    assert taken_by("/cp/a", ["/cp/ab", "file:/cp/b"]) is None
    assert taken_by("/cp/a", ["file:///cp/a/"]) == "file:///cp/a/"
    assert taken_by("/cp/a", ["/cp"]) == "/cp"
    assert taken_by("/cp", ["/cp/a"]) == "/cp/a"


class Writer:
    def write(self, rows: object, number: int) -> None: ...

    def __call__(self, rows: object, number: int) -> None: ...


def test_the_function_that_writes_the_batches_is_named_with_its_place() -> None:
    given = (Writer().write, partial(Writer.write, Writer()), Writer(), print)
    names = [str(writing_function(function)) for function in given]
    method = f"the function write() (test_script_queries.py:{Writer.write.__code__.co_firstlineno})"
    assert names == [method, method, "None", "None"]
    assert [writing_function(function).bound for function in given[:2]] == [1, 1]
    assert str(writing_function(lambda rows, number: None)).startswith("a lambda (test_script_queries.py:")
