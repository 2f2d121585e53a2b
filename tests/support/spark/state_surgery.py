"""Queries whose state a test changes by its keys. Their input is folded in Python.

Each file is a minute of rows on five keys, in order, and a batch reads one file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.lifecycle.surgery.rewriting import Keys
from streamwarden.services.fleet.claims import claim
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state.looking import Selection, show
from streamwarden.spark.state import taking_out
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import stream_of
from support.spark.state_looks import read_here
from support.spark.worker import ROCKSDB, minute_of_rows, publish

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
JOIN = "spark.sql.streaming.join.stateFormatVersion"
Query = Callable[..., Any]
ANN = Author(by="ann", reason="ticket 4711")


K1 = Keys(fields=("k1",))
KEYS = {"k0", "k1", "k2", "k3", "k4"}
DAY = 86_400_000


@dataclass
class Stream:
    """A query whose files are published one by one."""

    spark: Any
    spec: StreamSpec
    query: Query
    trigger: dict[str, Any]
    files: int = 0

    def read(self, files: int) -> None:
        """Publish so many files more, and read them, one a batch."""
        for _ in range(files):
            publish(self._folder, self.files, minute_of_rows(self.files))
            self.files += 1
            sources = len(signature(self.query).parameters)
            writer = self.query(*(self._rows() for _ in range(sources))).writeStream.format("parquet")
            writer = writer.option("checkpointLocation", self.spec.checkpoint).trigger(**self.trigger)
            writer.start(str(self.spec.sink.path)).awaitTermination()

    @property
    def _folder(self) -> Path:
        return Path(self.spec.checkpoint).parent / "given"

    def _rows(self) -> Any:
        from pyspark.sql import functions as f

        rows = self.spark.readStream.schema("id long, key string, at long").json(str(self._folder))
        return rows.withColumn("at", f.timestamp_millis("at")).withWatermark("at", "1 day")

    def seen(self, variable: str | None = None, operator: int | None = None) -> dict[str, list[Any]]:
        """Key -> the values of its rows, or when they expire if they have no value."""
        found: dict[str, list[Any]] = {}
        chosen = Selection(variable=variable, operator=operator)
        for entry in show(self.spec, chosen, rows=10_000).answer.entries:
            key = next((part for part in entry.key if str(part).startswith("k")), entry.key[0])
            value = entry.expires_ms if entry.value is None else tuple(json.loads(entry.value).values())
            found.setdefault(str(key), []).append(value)
        return found

    def tree(self) -> dict[str, bytes]:
        return files_in(Path(self.spec.checkpoint))


Made = Callable[..., Stream]


def maker(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Makes streams on a session."""
    read_here(monkeypatch, spark)

    def make(query: Query, conf: dict[str, str] | None = None, trigger: dict[str, Any] | None = None) -> Stream:
        place = tmp_path / "a place"  # operators name their schemas by paths
        place.mkdir()
        usual = {PROVIDER: ROCKSDB, "spark.sql.shuffle.partitions": "2", ENCODING: "unsaferow"}
        for name, value in {**usual, **(conf or {})}.items():
            spark.conf.set(name, value)
        spec = replace(stream_of(place, files=0), data=str(tmp_path / "the data"))
        return Stream(spark, spec, query, trigger or {"availableNow": True})

    return make


def ran_once(store: Store, spec: StreamSpec) -> None:
    """The store knows a driver of the stream, which has ended."""
    record, lease = claim(store, Path(spec.data), spec, launched_by="test", ttl=30, now=time.time() - 100)
    store.drivers.launched(record)
    store.leases.release(lease, now=time.time() - 90)


Folded = dict[str, list[Any]]
Fold = Callable[[list[tuple[int, str, int]]], Folded]


def rows_of(files: range) -> list[tuple[int, str, int]]:
    return [row for index in files for row in minute_of_rows(index)]


def by_key(value: Callable[[list[int], list[int]], Any]) -> Fold:
    """A fold that makes the rows of a key of its ids and times."""

    def fold(rows: list[tuple[int, str, int]]) -> Folded:
        ids: dict[str, tuple[list[int], list[int]]] = {}
        for number, key, at in rows:
            ids.setdefault(key, ([], []))[0].append(number)
            ids[key][1].append(at)
        return {key: value(*found) for key, found in ids.items()}

    return fold


sums = by_key(lambda ids, _: [(len(ids), sum(ids))])


def after(fold: Fold, gone: str = "k1") -> Folded:
    """The state when a key was deleted after two files, and a third was read: it has the third alone."""
    return {**fold(rows_of(range(3))), gone: fold(rows_of(range(2, 3)))[gone]}


def without(folded: Folded, key: str = "k1") -> Folded:
    return {name: value for name, value in folded.items() if name != key}


def one_too_many(monkeypatch: pytest.MonkeyPatch, also: Any) -> None:
    """Let the rewriter keep or drop rows that it should not."""
    rightly = taking_out.without
    monkeypatch.setattr(taking_out, "without", lambda rows, keys: also(rows, rightly(rows, keys)))


def files_in(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
