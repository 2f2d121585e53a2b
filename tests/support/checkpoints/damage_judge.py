"""Spark as the judge of a damaged checkpoint: it continues the query over one more file, then reads the output."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.damage import Consequence
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from support.checkpoints.damage_cases import AFTER, CHANGELOG, DELTAS, FORMAT, FULL, LIMIT, Kind
from support.checkpoints.random_damages import damage, lay_out, load
from support.spark.worker import Row, SparkWorker, expected_rows, minute_of_rows, publish

ORIGINS = {
    kind.archive: kind
    for kind in (
        Kind(CHANGELOG, "", archive="spark-4.3.0-changelog", files=13),
        Kind(FULL, "", archive="spark-4.3.0-rocksdb", files=3),
        Kind(DELTAS, "", archive="spark-4.3.0-hdfs", files=8),
        Kind(CHANGELOG, "", format="2", archive="spark-4.3.0-format2", files=4),
    )
    if kind.archive
}
"""The checkpoints that are damaged at random."""


class Judgement(StrEnum):
    """What Spark made of a damaged checkpoint."""

    RIGHT = "right"  # it started, and the output is right
    WRONG = "wrong"  # it started, and the output is wrong, or Spark's reader refuses it
    FAILS = "fails"  # it did not start, or failed in its first batches


_HEAD = re.compile(r"\[STREAM_FAILED\] Query .*? terminated with exception: ", re.DOTALL)


RECORDED = Path(__file__).parents[2] / "data" / "damage_judgements.json"
"""Spark's judgements, by seed; `benchmarks/checkpoint_damage` writes them."""


@cache
def recorded() -> dict[int, Judgement]:
    """Seed -> Spark's judgement."""
    return {int(seed): Judgement(each["spark"]) for seed, each in json.loads(RECORDED.read_text()).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomDamage:
    """A damage by its seed, which also chooses the archive and whether there are checksum files."""

    seed: int

    @property
    def archive(self) -> str:
        return list(ORIGINS)[self.seed % len(ORIGINS)]

    @property
    def checksums(self) -> bool:
        """One in three: without them a damage is harder to notice."""
        return self.seed // len(ORIGINS) % 3 == 0

    def make(self, root: Path) -> str:
        """Lay out the damaged checkpoint, its output and its input, with one more file, below `root`; returns what was
        damaged, and how."""
        tree, times = load(self.archive, checksums=self.checksums)
        what = damage(tree, self.seed)
        lay_out(tree, times, self.archive, root)
        kind = ORIGINS[self.archive]
        for index in range(kind.files + AFTER):
            publish(root / "input", index, minute_of(kind, index))
        return what


def foretold(root: Path) -> Consequence | None:
    """What the inspector says of the checkpoint and its output below `root`."""
    return read_checkpoint(open_path(root / "checkpoint"), output=open_path(root / "output")).worst


def is_wrong_fine(said: Consequence | None, judgement: Judgement) -> bool:
    return judgement is not Judgement.RIGHT and not (said is not None and said.grave)


def is_false_alarm(said: Consequence | None, judgement: Judgement) -> bool:
    return judgement is Judgement.RIGHT and said is not None and said.grave


def judge(spark: SparkWorker, root: Path, kind: Kind) -> tuple[Judgement, str]:
    """Let Spark continue the query below `root`. The text is the error, or what is wrong with the output."""
    places = {name: str(root / name) for name in ("input", "output", "checkpoint")}
    failure = spark.run(root.name, timeout=60, **places, **arguments(kind))
    if failure is not None:
        return Judgement.FAILS, re.sub(r"\s+", " ", _HEAD.sub("", failure).replace(str(root), ""))[:160]
    rows = read_output(spark, places["output"])
    if rows == rows_of(kind):
        return Judgement.RIGHT, ""
    return Judgement.WRONG, "the reader refuses" if rows is None else f"{len(rows)} rows of {len(rows_of(kind))}"


def arguments(kind: Kind, options: Mapping[str, str] | None = None, **conf: str) -> dict[str, Any]:
    """How the worker runs a query of this kind."""
    return {
        "options": dict(options or {}),
        "conf": {**kind.conf, FORMAT: kind.format, LIMIT: "50", **conf},
        "shape": kind.shape,
    }


def minute_of(kind: Kind, index: int) -> list[tuple[int, str, int]]:
    """The rows of the file `index`; those of an archive are of tests/data/make_checkpoints.py."""
    return minute_of_rows(index) if kind.archive is None else minute_of_rows(index, rows=20, keys=3, apart_ms=1000)


def rows_of(kind: Kind, more: int = 0) -> list[Row]:
    """What the output must hold once every file is read, and `more` after them."""
    rows = [row for index in range(kind.files + AFTER + more) for row in minute_of(kind, index)]
    return expected_rows(rows) if kind.shape == "counts" else sorted((at, key, 1, number) for number, key, at in rows)


def read_output(spark: SparkWorker, output: str) -> list[Row] | None:
    """The output as Spark's own reader sees it; None if it refuses to."""
    try:
        return spark.rows(output)
    except AssertionError:
        return None
