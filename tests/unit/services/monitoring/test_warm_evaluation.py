"""An evaluator that lives on and reads compact reports judges as a new one that parses every report."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.history.compact import KEPT, KEPT_PREFIX
from streamwarden.health.checks import CHECKS
from streamwarden.health.evaluate import evaluate
from streamwarden.health.resting import MEASURED_EVERY
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Measurement
from streamwarden.progress import Progress, parse_progress
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from support.streams.health_windows import recorded, report, window
from support.streams.monitored import QUERY, T0, Stream, by_check, me

ROUNDS = 25


@dataclass
class History:
    """What may happen to a stream between two rounds, drawn at random."""

    stream: Stream
    path: Path
    draw: random.Random
    now: float = T0
    batch: int = 0
    lost: list[int] = field(default_factory=list)
    watermark: float = T0 - 60
    query: str = QUERY

    def happen(self) -> str:
        """One to three things, and a minute; their names."""
        things: list[Callable[[], None]] = [
            *(*[self.commit] * 6, self.lose, self.idle, self.execute_again, self.report_late),
            *(self.replaced_by_an_older_version, self.take_back, self.measure, self.wait),
            *(self.delete_rows, self.begin_another_query, self.step_the_clock_back),
        ]
        chosen = self.draw.choices(things, k=self.draw.randint(1, 3))
        for thing in chosen:
            thing()
        self.now += 60
        return ", ".join(thing.__name__ for thing in chosen)

    def made(self, batch: int, at: float) -> Progress:
        """A report with other numbers than any before it."""
        draw = self.draw
        self.watermark += draw.choice([0, 0, 10, 60, 7 * 3600])
        return report(
            batch,
            at,
            backend=draw.choice(["rocksdb", "hdfs"]),
            top={
                "id": self.query,
                "batchDuration": draw.randrange(500, 60_000),
                "numInputRows": draw.choice([0, 100, 20_000]),
            },
            durations={"walCommit": draw.choice([50, 15_000, 45_000]), "addBatch": draw.randrange(100, 50_000)},
            operator={"numRowsDroppedByWatermark": draw.choice([0, 0, 500]), "commitTimeMs": draw.randrange(90_000)},
            custom={
                "rocksdbSstFileSize": draw.choice([0, 10**8, 6 * 10**9]),
                "SnapshotLastUploaded.partition_0_default": draw.choice([-1, batch]),
                "numDroppedDuplicateRows": draw.choice([0, 300]),
            },
            operators=draw.choice([1, 2]),
            watermark=self.watermark,
        )

    def commit(self) -> None:
        at = self.now + self.draw.randrange(50)
        self.stream.plan(self.batch, at, f"f{self.batch}.json")
        self.stream.commit(self.batch, at + 1, snapshot=self.draw.random() < 0.5)
        self.stream.store.batches.upsert_progress("orders", self.made(self.batch, at), at, at + 1)
        self.batch += 1

    def lose(self) -> None:
        self.stream.plan(self.batch, self.now, f"f{self.batch}.json")
        self.stream.commit(self.batch, self.now + 1)
        self.lost.append(self.batch)
        self.batch += 1

    def idle(self) -> None:
        top = {"id": self.query, "numInputRows": 0, "durationMs": {"triggerExecution": 1}, "stateOperators": []}
        self.stream.store.batches.upsert_progress("orders", report(self.batch, self.now + 5, top=top))

    def execute_again(self) -> None:
        again = self.made(max(0, self.batch - 1), self.now + 20)
        again = parse_progress({**again.raw, "runId": f"run of {self.now}"})
        self.stream.store.batches.upsert_progress("orders", again)

    def report_late(self) -> None:
        if self.lost:
            self.stream.store.batches.upsert_progress("orders", self.made(self.lost.pop(), self.now - 90))

    def replaced_by_an_older_version(self) -> None:
        """An older driver writes the columns that it knows, and so leaves the compact form of the report before."""
        newest = self.stream.store.batches.window("orders", 1)
        if newest and newest[0].progress is not None and newest[0].progress.has_run:
            with closing(sqlite3.connect(self.path)) as connection:
                compact = connection.execute("SELECT batch_id, compact, compact_at FROM batches").fetchall()
                self.stream.store.batches.upsert_progress("orders", self.made(newest[0].batch_id, self.now + 30))
                restore = "UPDATE batches SET compact = ?, compact_at = ? WHERE batch_id = ?"
                connection.executemany(restore, [(*old, batch) for batch, *old in compact])
                connection.commit()

    def take_back(self) -> None:
        if self.draw.random() < 0.2:
            self.stream.store.batches.take_back("orders", self.query, self.batch - 2, f"{self.now:.0f}")

    def delete_rows(self) -> None:
        """As housekeeping does with old ones, and a person with any."""
        newest = self.batch - 1
        gone = self.draw.choice(["batch_id % 5 = 0", f"batch_id < {newest - 30}", f"batch_id = {newest}"])
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for table in ("batches", "state_operators"):
                connection.execute(f"DELETE FROM {table} WHERE {gone}")

    def begin_another_query(self) -> None:
        """The checkpoint was deleted: its batches count from 0 again."""
        if self.draw.random() < 0.2:
            self.query, self.batch, self.lost = f"query of {self.now}", 0, []
            for file in self.stream.checkpoint.rglob("*[0-9]*"):
                file.unlink() if file.is_file() else None
            (self.stream.checkpoint / "metadata").write_text(json.dumps({"id": self.query}))

    def step_the_clock_back(self) -> None:
        self.now -= self.draw.choice([30, 90, 600])

    def measure(self) -> None:
        samples = [(name, n) for name in ("resident_bytes", "state_dir_bytes") for n in (0, 10, 20)]
        self.stream.store.measurements.add(
            Measurement(
                stream="orders",
                name=name,
                at=self.now + n,
                value=1e9 * self.draw.random(),
                unit="bytes",
                source="runner",
            )
            for name, n in samples
        )

    def wait(self) -> None:
        self.now += self.draw.choice([60, 900, 7200])


@pytest.mark.parametrize("seed", range(6))
def test_any_history_is_judged_alike(seed: int, tmp_path: Path, store: Store, store_url: str) -> None:
    """One evaluator judges each round, from compact reports. The other one is new in each round, with a copy of the
    store in which no report has a compact form. All verdicts, and what both stores have of them, are the same."""
    stream, store_path = Stream(tmp_path, store), Path(store_url.removeprefix("sqlite:///"))
    stream.drive(me())
    history = History(stream, store_path, random.Random(seed))
    warm = HealthMonitor(store)
    alarms = 0
    for number in range(ROUNDS):
        what = history.happen()
        copy = without_compact_reports(store_path, tmp_path / f"{number}.db")
        with Store(f"sqlite:///{copy}") as other:
            fresh = HealthMonitor(other).evaluate([stream.spec], history.now)
            again = warm.evaluate([stream.spec], history.now)
            assert again.verdicts == fresh.verdicts, what
            assert store.verdicts.latest() == other.verdicts.latest(), what
            alarms += sum(verdict.status is Status.CRITICAL for verdict in again.verdicts)
    assert alarms, "the history is one in which something can be judged"


RESTING = {check.name for check in CHECKS if check.rests}


@pytest.mark.parametrize("seed", range(6))
def test_while_some_checks_rest_the_others_judge_alike(seed: int, tmp_path: Path, store: Store, store_url: str) -> None:
    """In each round a copy of the store is judged afresh. The verdicts of the checks that never rest are the same, and
    none that stands was measured more than ten minutes ago."""
    stream, store_path = Stream(tmp_path, store), Path(store_url.removeprefix("sqlite:///"))
    stream.drive(me())
    history = History(stream, store_path, random.Random(seed))
    stood = 0
    for number in range(ROUNDS):
        what = history.happen()
        with Store(f"sqlite:///{without_compact_reports(store_path, tmp_path / f'{number}.db')}") as other:
            fresh = by_check(HealthMonitor(other).evaluate([stream.spec], history.now, afresh=True).verdicts)
        rested = by_check(HealthMonitor(store).evaluate([stream.spec], history.now).verdicts)
        assert {name: fresh[name] for name in fresh.keys() - RESTING} == {
            name: rested[name] for name in rested.keys() - RESTING
        }, what
        old = [history.now - rested[name].evidence.get("measured_at", history.now) for name in RESTING & rested.keys()]  # type: ignore[operator]
        assert all(0 <= seconds < MEASURED_EVERY for seconds in old), what
        stood += any(old)
    assert stood, "in the history some verdicts stand"


def test_a_check_that_rests_notices_at_its_next_reading_and_a_person_at_once(tmp_path: Path, store: Store) -> None:
    """The log of the source grows beyond its limit while the last verdict on it stands."""
    stream = Stream(tmp_path, store)
    stream.run(range(20))
    stream.drive(me())
    compact = stream.checkpoint / "sources/0/9.compact"
    compact.write_text("v1")

    def growth(now: float, *, afresh: bool = False) -> Verdict:
        found = HealthMonitor(store).evaluate([stream.spec], now, afresh=afresh).verdicts
        return by_check(found)["metadata_growth"]

    assert growth(T0).status is Status.OK
    os.truncate(compact, 10**9)
    assert (growth(T0 + 60).status, growth(T0 + 60).evidence["measured_at"]) == (Status.OK, T0)
    assert by_check(HealthMonitor(store).judge(stream.spec, T0 + 60))["metadata_growth"].status is Status.CRITICAL
    assert growth(T0 + MEASURED_EVERY).status is Status.CRITICAL
    os.truncate(compact, 100)
    assert growth(T0 + MEASURED_EVERY + 60).status is Status.OK, "one that alarms is read each time"
    os.truncate(compact, 10**9)
    assert growth(T0 + MEASURED_EVERY + 120, afresh=True).status is Status.CRITICAL


def test_the_comparison_notices_a_compact_form_that_is_not_that_of_the_report(
    tmp_path: Path, store: Store, store_url: str
) -> None:
    """Negative control: with the number of another report in it, the verdict is another one."""
    stream = Stream(tmp_path, store)
    stream.run(range(20))
    stream.drive(me())
    right = HealthMonitor(store).judge(stream.spec, T0)
    with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE batches SET compact = replace(compact, '\"walCommit\":100', '\"walCommit\":90000')")
    wrong = HealthMonitor(store).judge(stream.spec, T0)
    assert by_check(right)["checkpoint_duration"].status is Status.OK
    assert by_check(wrong)["checkpoint_duration"].status is Status.CRITICAL


@pytest.mark.parametrize("backend", ["rocksdb", "hdfs"])
def test_the_checks_read_no_metric_that_a_compact_report_lacks(backend: str) -> None:
    reports = [parse_progress(raw) for raw in recorded(backend)]
    for each in reports:
        for operator in each.operators:
            object.__setattr__(operator, "custom", Noted(operator.custom))
    verdicts: tuple[Verdict, ...] = evaluate(window(reports), DEFAULTS)
    assert verdicts
    assert Noted.read, "the checks read some"
    assert {name for name in Noted.read if name not in KEPT and not name.startswith(KEPT_PREFIX)} == set()


class Noted(dict[str, int]):
    """Custom metrics that note which ones are asked for by name."""

    read: ClassVar[set[str]] = set()

    def get(self, name: str, default: int | None = None) -> int | None:  # type: ignore[override]
        Noted.read.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> int:
        Noted.read.add(name)
        return super().__getitem__(name)


def without_compact_reports(path: Path, copy: Path) -> Path:
    """A copy of the store as older drivers would have written it."""
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        target.execute("UPDATE batches SET compact = NULL, compact_at = NULL")
        target.commit()
    return copy
