"""Each row of the table of compatible changes, with a real Spark: a query is changed, and goes on or is refused.

Two rows are tried in the first tier, the others with `--full`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.lifecycle.upgrades.changes import (
    ENCODING,
    PROVIDER,
    SHUFFLE_PARTITIONS,
    fixed_settings,
    state_changes,
)
from streamwarden.lifecycle.upgrades.rules import RULES, Outcome, Rule
from streamwarden.spark.driver.failures import describe
from support.spark.worker import HDFS

pytestmark = pytest.mark.spark

AVRO = {ENCODING: "avro"}
COLUMNS = "id BIGINT, key INT, other INT, at TIMESTAMP, small INT"
FIRST_TIER = ("filter_added", "aggregate_added")


@dataclass
class World:
    """A session with two folders of input, of which some files are published later."""

    spark: Any
    root: Path

    def publish(self, numbers: range) -> None:
        for folder in ("one", "two"):
            (self.root / folder).mkdir(exist_ok=True)
            for number in numbers:
                minute = f"2026-01-01T00:{number:02d}"
                rows = [
                    {"id": number * 10 + n, "key": n % 3, "other": n % 2, "at": f"{minute}:{n:02d}Z", "small": n}
                    for n in range(10)
                ]
                part = self.root / folder / f".{number}"
                part.write_text("".join(json.dumps(row) + "\n" for row in rows))
                os.utime(part, (1.7e9 + number, 1.7e9 + number))
                part.rename(self.root / folder / f"{number}.json")

    def rows(self, folder: str = "one") -> Any:
        reader = self.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.root / folder))

    def marked(self, folder: str = "one") -> Any:
        return self.rows(folder).withWatermark("at", "10 seconds")

    def counts(
        self, rows: Any = None, *, delay: str = "10 seconds", length: str = "10 seconds", by: str = "key", **more: Any
    ) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        rows = self.rows() if rows is None else rows
        wanted = more or {"v": F.sum("id")}
        groups = rows.withWatermark("at", delay).groupBy(F.window("at", length), *by.split(", "))
        return groups.agg(*(column.alias(name) for name, column in wanted.items()))

    def processed(self, by: str = "key", **variables: str) -> Any:
        """A processor with these variables: kind and fields of each, such as `Value n INT`."""
        processor = Keeping({name: tuple(text.split(" ", 1)) for name, text in variables.items()})
        kind = dict(part.split(" ") for part in COLUMNS.split(", "))[by]
        return self.rows().groupBy(by).transformWithState(processor, f"k {kind}, n BIGINT", "Append", "None")

    def run(self, frame: Any, checkpoint: Path) -> str | None:
        """Run a query until it has read its input; Spark's error condition, None: it ended well."""
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        except Exception as error:
            return describe(error, "")[0]
        return None


class Keeping:
    """Keeps the number of rows of each key in its variables."""

    def __init__(self, variables: dict[str, tuple[str, ...]]) -> None:
        self._variables = variables

    def init(self, handle: Any) -> None:
        self._states = {
            name: (kind, fields, getattr(handle, f"get{kind}State")(name, fields))
            for name, (kind, fields) in self._variables.items()
        }

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 (Spark's)
        from pyspark.sql import Row

        count = len(list(rows))
        for kind, fields, state in self._states.values():
            value = tuple("x" if field.endswith("STRING") else count for field in fields.split(", "))
            if kind == "Value":
                _ = state.get() if state.exists() else None
                state.update(value)
            else:
                state.appendValue(value)
        return iter([Row(k=key[0], n=count)])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        return iter(())

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        return None

    def close(self) -> None:
        return None


Build = Callable[[World], Any]


@dataclass(frozen=True)
class Case:
    """A query and what becomes of it. `first`, `then`: settings of each."""

    old: Build
    new: Build
    first: dict[str, str]
    then: dict[str, str]


def case(old: Build, new: Build, first: dict[str, str] | None = None, then: dict[str, str] | None = None) -> Case:
    first = first or {}
    return Case(old, new, first, first if then is None else then)


def max_of(column: str) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return F.max(column)


def joined(world: World) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    one, two = world.marked().alias("a"), world.marked("two").alias("b")
    return world.counts(one.join(two, F.expr("a.id = b.id AND a.at = b.at")).select("a.*"))


def counts(world: World) -> Any:
    return world.counts()


def of(**variables: str) -> Build:
    return lambda world: world.processed(**variables)


CASES: dict[str, Case] = {
    "filter_added": case(counts, lambda world: world.counts(world.rows().where("key <> 1"))),
    "column_added": case(counts, lambda world: world.counts().selectExpr("*", "1 AS w")),
    "static_join_added": case(
        counts, lambda world: world.counts(world.rows().join(world.spark.range(3).toDF("key"), "key"))
    ),
    "key_changed": case(counts, lambda world: world.counts(by="key, other")),
    "key_replaced": case(counts, lambda world: world.counts(by="other")),
    "aggregate_added": case(counts, lambda world: world.counts(v=max_of("id"), w=max_of("small"))),
    "aggregate_replaced": case(counts, lambda world: world.counts(v=max_of("id"))),
    "aggregate_widened": case(
        lambda world: world.counts(v=max_of("small")), lambda world: world.counts(v=max_of("id"))
    ),
    "window_changed": case(counts, lambda world: world.counts(length="20 seconds")),
    "operator_added": case(counts, lambda world: world.counts(world.marked().dropDuplicates(["id", "at"]))),
    "operator_removed": case(counts, World.rows),
    "first_operator": case(World.rows, counts),
    "deduplication_changed": case(
        lambda world: world.marked().dropDuplicates(["id", "at"]),
        lambda world: world.marked().dropDuplicates(["key", "at"]),
    ),
    "stream_join_added": case(counts, joined),
    "source_added": case(counts, lambda world: world.counts(world.rows().union(world.rows("two")))),
    "watermark_longer": case(counts, lambda world: world.counts(delay="5 minutes")),
    "watermark_shorter": case(counts, lambda world: world.counts(delay="1 second")),
    "shuffle_partitions": case(counts, counts, then={SHUFFLE_PARTITIONS: "3"}),
    "backend": case(counts, counts, then={PROVIDER: HDFS}),
    "encoding": case(of(a="Value n INT"), of(a="Value n INT"), then=AVRO),
    "variable_added": case(of(a="Value n INT"), of(a="Value n INT", b="Value m INT")),
    "variable_removed": case(of(a="Value n INT", b="Value m INT"), of(a="Value n INT")),
    "variable_kind": case(of(a="Value n INT"), of(a="List n INT")),
    "processor_key": case(of(a="Value n INT"), lambda world: world.processed(by="id", a="Value n INT")),
    "unsafe_field_added": case(of(a="Value n INT"), of(a="Value n INT, m INT")),
    "unsafe_fields_moved": case(of(a="Value n INT, m INT"), of(a="Value m INT, n INT")),
    "avro_field_added": case(of(a="Value n INT"), of(a="Value n INT, m INT"), AVRO),
    "avro_field_removed": case(of(a="Value n INT, m INT"), of(a="Value n INT"), AVRO),
    "avro_field_widened": case(of(a="Value n INT"), of(a="Value n BIGINT"), AVRO),
    "avro_fields_moved": case(of(a="Value n INT, m INT"), of(a="Value m INT, n INT"), AVRO),
    "avro_field_narrowed": case(of(a="Value n BIGINT"), of(a="Value n INT"), AVRO),
    "avro_field_retyped": case(of(a="Value n INT"), of(a="Value n STRING"), AVRO),
}


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> World:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers cannot import a test
    return World(spark, tmp_path)


def test_each_row_of_the_table_is_tried() -> None:
    assert CASES.keys() == {rule.code for rule in RULES}


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, id=rule.code, marks=[] if rule.code in FIRST_TIER else pytest.mark.full) for rule in RULES],
)
def test_spark_does_what_the_table_says(world: World, rule: Rule) -> None:
    tried = CASES[rule.code]
    world.publish(range(2))
    with settings(world, tried.first):
        assert world.run(tried.old(world), world.root / "old") is None
    before, kept = report(world, "old"), report(world, "old")
    world.publish(range(2, 4))
    with settings(world, tried.then):
        refused = world.run(tried.new(world), world.root / "old")
        world.run(tried.new(world), world.root / "anew")
    assert refused == rule.error_class
    after, anew = report(world, "old"), report(world, "anew")
    found = state_changes(before, anew)
    assert rule.shows & {change.what for change in found} or not rule.shows
    silent = rule.outcome is Outcome.WRONG and bool(rule.shows)
    assert any(change.silent for change in found) is silent
    ignored = {setting.key for setting in fixed_settings(before, anew)}
    assert ignored == (set(tried.then) - set(tried.first) if rule.outcome is Outcome.IGNORED else set())
    assert {key: after.conf[key] for key in ignored} == {key: kept.conf[key] for key in ignored}
    advanced = (after.position.committed or 0) > (kept.position.committed or 0)
    assert advanced is (refused is None)


def report(world: World, name: str) -> CheckpointReport:
    return read_checkpoint(open_path(str(world.root / name)))


@contextmanager
def settings(world: World, conf: dict[str, str]) -> Iterator[None]:
    """Settings of the session, for a while."""
    before = {key: world.spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        world.spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                world.spark.conf.unset(key)
            else:
                world.spark.conf.set(key, value)
