"""Time travel in the state of each operator, on both backends where Spark has both. The input is folded in Python.

Each file is a minute of rows on five keys, in order, and a batch reads one file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.lifecycle.time_travel.answers import Entry
from streamwarden.services.state.looking import Look, Selection, diff, history, show
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import stream_of
from support.spark.state_looks import read_here
from support.spark.stateful_queries import distinct, distinct_within, in_pandas, in_processor, in_sessions, joined
from support.spark.worker import HDFS, ROCKSDB, minute_of_rows, publish

pytestmark = [pytest.mark.spark, pytest.mark.full]

FILES = 3
BACKENDS = {"hdfs": HDFS, "rocksdb": ROCKSDB}


Folded = Counter[tuple[Any, ...]]


def shown(look: Look[Any], value: Callable[[Entry], Any]) -> Folded:
    assert look.answer.rows == len(look.answer.entries)
    return Counter((*entry.key, value(entry)) for entry in look.answer.entries)


def read(entry: Entry) -> Any:
    found = None if entry.value is None else json.loads(entry.value)
    return (None if found is None else tuple(str(item) for item in found.values()), entry.expires_ms)


def rows_until(batch: int) -> list[tuple[int, str, int]]:
    return [row for index in range(batch + 1) for row in minute_of_rows(index)]


def keys_until(batch: int) -> Folded:
    return Counter({(key, (None, None)): 1 for _, key, _ in rows_until(batch)})


def groups_until(batch: int) -> Folded:
    counts = Counter(key for _, key, _ in rows_until(batch))
    latest = {key: at for _, key, at in rows_until(batch)}
    return Counter({(key, ((str(n), "x" * n), latest[key] + 3_600_000)): 1 for key, n in counts.items()})


@pytest.fixture
def run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Any], Any], str], StreamSpec]:
    """Runs a query over the files, with its state in a backend."""
    read_here(monkeypatch, spark)

    def made(query: Callable[[Any], Any], backend: str) -> StreamSpec:
        from pyspark.sql import functions as f

        place = tmp_path / "a place"  # operators name their schemas by paths
        place.mkdir()

        spark.conf.set("spark.sql.streaming.stateStore.providerClass", BACKENDS[backend])
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spec = replace(stream_of(place, files=0), data=str(tmp_path / "the data"))
        folder = place / "input"
        for index in range(FILES):
            publish(folder, index, minute_of_rows(index))
        rows = spark.readStream.schema("id long, key string, at long").option("maxFilesPerTrigger", "1")
        given = rows.json(str(folder)).withColumn("at", f.timestamp_millis("at")).withWatermark("at", "1 day")
        writer = query(given).writeStream.format("noop").option("checkpointLocation", spec.checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        return spec

    return made


Run = Callable[[Callable[[Any], Any], str], StreamSpec]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("query", "fold"), [(distinct, keys_until), (in_pandas, groups_until)], ids=["dropDuplicates", "applyInPandas"]
)
def test_state_after_each_batch(
    run: Run, backend: str, query: Callable[[Any], Any], fold: Callable[[int], Folded]
) -> None:
    spec = run(query, backend)
    for batch in range(FILES):
        assert shown(show(spec, Selection(), batch=batch, rows=1000), read) == fold(batch)
    if fold is groups_until:
        assert fold(0) != fold(1)
        changes = diff(spec, Selection(), before=0, after=1).answer
        assert (changes.changed, changes.grew, changes.appeared, changes.vanished) == (5, 5, 0, 0)
        assert {change.bytes_after for change in changes.growth} == {8 + 12}, "a long, and six letters a minute"
        past = history(spec, Selection(keys=("k3",))).answer.moments
        assert [read(moment.entries[0])[0] for moment in past[:FILES]] == [
            (str(6 * minutes), "x" * 6 * minutes) for minutes in (1, 2, 3)
        ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_duplicates_within_a_watermark_expire(run: Run, backend: str) -> None:
    spec = run(distinct_within, backend)
    found = show(spec, Selection(), batch=1, rows=1000)
    assert shown(found, lambda entry: entry.expires_ms) == Counter(
        {(str(number), at + 86_400_000): 1 for number, _, at in rows_until(1)}
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_both_sides_of_a_join(run: Run, backend: str) -> None:
    spec = run(joined, backend)
    for side, field in (("left", "id"), ("right", "other")):
        found = show(spec, Selection(variable=side), batch=1, rows=1000)
        ids = Counter(json.loads(str(entry.value))[field] for entry in found.answer.entries)
        assert ids == Counter(number for number, _, _ in rows_until(1))
        assert diff(spec, Selection(variable=side), before=0, after=2).answer.appeared == 60


@pytest.mark.parametrize("backend", BACKENDS)
def test_sessions_merge(run: Run, backend: str) -> None:
    """One session a key, which grows with each batch."""
    spec = run(in_sessions, backend)
    for batch in range(FILES):
        found = show(spec, Selection(), batch=batch, rows=1000).answer
        counts = Counter(key for _, key, _ in rows_until(batch))
        values = {str(entry.key[0]): json.loads(str(entry.value)) for entry in found.entries}
        assert {key: value["count"] for key, value in values.items()} == counts


def test_a_processor_in_a_place_with_a_space(run: Run) -> None:
    spec = run(in_processor, "rocksdb")
    for batch in range(FILES):
        counts = Counter(key for _, key, _ in rows_until(batch))
        found = show(spec, Selection(), batch=batch)
        assert shown(found, read) == Counter({(key, ((str(n),), None)): 1 for key, n in counts.items()})
