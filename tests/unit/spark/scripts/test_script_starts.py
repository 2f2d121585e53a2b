"""What a driver sets on the queries of a script. With real Spark: tests/spark/jobs/test_word_count.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from streamwarden.errors import JobError
from streamwarden.lifecycle.script_queries import NamedInput, NamedQuery
from streamwarden.sources.files import FilesSource
from streamwarden.spark.scripts.declared_settings import ScriptStarts, named_by
from streamwarden.spark.scripts.query_starts import QueryStart
from streamwarden.stream.spec import StreamSpec, TriggerSpec

SPEC = StreamSpec(
    name="words",
    job="/p/words.py",
    checkpoint="/data/checkpoints/words",
    data="/data",
    trigger=TriggerSpec(processing_time=5.0),
)


class Writer:
    """Spark's writer, as far as it is used; keeps what is set on it."""

    def __init__(self, **conf: str) -> None:
        self.set: dict[str, Any] = {}
        self._spark = self
        settings = SimpleNamespace(newHadoopConf=lambda: {"fs.defaultFS": "file:///"})
        self._jvm, self._jsparkSession = None, SimpleNamespace(sessionState=lambda: settings)
        self.conf = conf

    def option(self, name: str, value: str) -> None:
        self.set[name] = value

    def trigger(self, **options: Any) -> None:
        self.set["trigger"] = options


def started(spec: StreamSpec = SPEC, *queries: NamedQuery, starts: int | None = 1) -> list[dict[str, Any]]:
    """What is set on the writer of each of these queries of one driver."""
    script = ScriptStarts(spec, starts=starts)
    writers = [Writer() for _ in queries]
    for writer, query in zip(writers, queries, strict=True):
        script.complete(writer, query)
    return [writer.set for writer in writers]


def test_a_query_that_names_nothing_gets_the_declared_checkpoint_and_trigger() -> None:
    assert started(SPEC, NamedQuery(format="console")) == [
        {"checkpointLocation": "file:/data/checkpoints/words", "trigger": {"processingTime": "5000 milliseconds"}}
    ]


def test_what_a_query_names_stays() -> None:
    own = NamedQuery(checkpoint="checkpoints/words", trigger=TriggerSpec(processing_time=5.0))
    assert started(SPEC, own) == [{}]


@pytest.mark.parametrize(
    ("query", "named", "declared"),
    [
        (NamedQuery(checkpoint="cp"), "/data/cp", "/data/checkpoints/words"),
        (NamedQuery(trigger=TriggerSpec(available_now=True)), "available_now: true", "processing_time: 5.0 s"),
    ],
)
def test_a_query_that_contradicts_the_file_is_refused_with_both_values(
    query: NamedQuery, named: str, declared: str
) -> None:
    with pytest.raises(JobError) as refused:
        started(SPEC, query)
    assert named in refused.value.observed
    assert declared in refused.value.expected
    assert refused.value.where == "/p/words.py"
    assert "make the script and" in refused.value.next_step


def test_several_queries_get_a_checkpoint_each() -> None:
    both = started(SPEC, NamedQuery(name="left"), NamedQuery(path="output/right"), starts=2)
    assert [each["checkpointLocation"] for each in both] == [
        "file:/data/checkpoints/words/left",
        "file:/data/checkpoints/words/right",
    ]


@pytest.mark.parametrize(
    ("queries", "starts"),
    [
        ((NamedQuery(), NamedQuery()), None),
        ((NamedQuery(), NamedQuery(name="second")), None),
        ((NamedQuery(format="console"), NamedQuery(format="console")), 2),
        ((NamedQuery(checkpoint="checkpoints/words"), NamedQuery(name="left")), 2),
    ],
)
def test_a_checkpoint_is_never_set_where_another_query_has_its_own(
    queries: tuple[NamedQuery, ...], starts: int | None
) -> None:
    with pytest.raises(JobError, match=r"overlaps the checkpoint .*declare them in `queries`"):
        started(SPEC, *queries, starts=starts)


def test_a_named_query_that_the_script_starts_again_goes_on_with_its_checkpoint() -> None:
    again = started(SPEC, NamedQuery(name="words"), NamedQuery(name="words"), starts=None)
    assert {each["checkpointLocation"] for each in again} == {"file:/data/checkpoints/words"}


def test_a_nameless_query_of_several_declared_ones_is_refused() -> None:
    spec = StreamSpec(name="words", job="/j.py", checkpoint="/cp", queries={"left": None, "right": None})
    with pytest.raises(JobError, match=r"names no checkpoint.*left, right.*queryName"):
        started(spec, NamedQuery(), starts=2)


def test_a_root_folder_of_checkpoints_names_those_of_named_queries_only() -> None:
    root = {"spark.sql.streaming.checkpointLocation": "/root/"}
    named = QueryStart(Writer(**root), {"queryname": "q", "format": "parquet"}, None)
    assert named_by(named).checkpoint == "/root/q"
    assert named_by(QueryStart(Writer(**root), {"format": "parquet"}, None)).checkpoint is None


def test_an_input_that_only_the_start_shows_is_compared() -> None:
    spec = replace(SPEC, source=FilesSource(path="/data/input/words"))
    ScriptStarts(spec, starts=1).complete(Writer(), NamedQuery(), [NamedInput(path="input/words")])
    with pytest.raises(JobError, match=r"the input folder /data/input/word\b.*declares, /data/input/words"):
        ScriptStarts(spec, starts=1).complete(Writer(), NamedQuery(), [NamedInput(path="input/word")])


def test_a_refused_start_first_ends_the_scripts_other_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[Callable[[QueryStart], None]] = []
    monkeypatch.setattr("streamwarden.spark.scripts.declared_settings.watch_starts", watched.append)
    monkeypatch.setattr(QueryStart, "inputs", lambda self: ())
    refused: list[JobError] = []
    ScriptStarts(SPEC, starts=1, refuse=refused.append).watch()
    with pytest.raises(JobError) as raised:
        watched[0](QueryStart(Writer(), {"checkpointlocation": "elsewhere"}, None))
    assert refused == [raised.value]


def test_declared_queries_are_left_to_the_roster() -> None:
    """It knows the query's name, and ends the others at their batch boundaries."""
    spec = replace(SPEC, queries={"left": "/data/cp/left"})
    assert started(spec, NamedQuery(name="other", checkpoint="cp/other"), starts=2) == [
        {"trigger": {"processingTime": "5000 milliseconds"}}
    ]
