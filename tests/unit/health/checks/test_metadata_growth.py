"""The logs that Spark rewrites as a whole: their size, what a compaction costs, and when they are too large."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.compact_logs import CompactLog, compact_logs
from streamwarden.health.checks.state import metadata_growth
from streamwarden.health.verdict import Status
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.tuning.history import History
from streamwarden.tuning.recommendation import Decision
from streamwarden.tuning.retention import advise
from support.streams.health_windows import NOW, judge, report, spec, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN


def log(size: int, *, growth: float | None = None, name: str = "_spark_metadata") -> CompactLog:
    entries = size // 250
    return CompactLog(name=name, batch=19, next_batch=29, size=size, entries=entries, exact=False, growth=growth)


def compacted(folder: Path, batch: int, files: int, at: float) -> int:
    """A compact file as Spark writes it; returns its bytes."""
    lines = [json.dumps({"path": f"file:///out/part-{n:05d}.parquet", "size": 1}) for n in range(files)]
    path = folder / f"{batch}.compact"
    path.write_text("\n".join(["v1", *lines]))
    os.utime(path, (at, at))
    return path.stat().st_size


@pytest.mark.parametrize("exact", [True, False])
def test_the_logs_of_sink_and_sources_are_read_from_their_newest_compact_file(tmp_path: Path, exact: bool) -> None:
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"
    source, manifest = checkpoint / "sources" / "0", output / "_spark_metadata"
    source.mkdir(parents=True)
    manifest.mkdir(parents=True)
    small = compacted(manifest, 9, 10, NOW - 100)
    large = compacted(manifest, 19, 5_000, NOW)
    (manifest / "20").write_text("v1")
    compacted(source, 9, 3, NOW)
    sink, read = compact_logs(open_path(str(checkpoint)), open_path(str(output)), exact=exact)
    assert (sink.name, sink.batch, sink.next_batch, sink.size, sink.exact) == ("_spark_metadata", 19, 29, large, exact)
    assert sink.entries == pytest.approx(5_000, rel=0 if exact else 0.02)
    assert sink.growth == pytest.approx((large - small) / 100)
    assert (read.name, read.entries, read.growth) == ("sources/0", 3, None)


def test_a_query_without_such_logs_has_none(tmp_path: Path) -> None:
    assert compact_logs(open_path(str(tmp_path)), None) == ()


@pytest.mark.parametrize(
    ("size", "status"),
    [(63_999_999, OK), (64_000_000, WARNING), (512_000_000, WARNING), (512_000_001, CRITICAL)],
)
def test_boundaries(size: int, status: Status) -> None:
    verdict = judge(metadata_growth.CHECK, window(logs=(log(10, name="sources/0"), log(size))))
    assert (verdict.status, verdict.value) == (status, size)


def test_the_cost_and_the_forecast_are_named() -> None:
    """Every tenth batch takes 5 s longer; 44.8 MB a day are ten days to 512 MB."""
    reports = [report(n, top={"batchDuration": 7_000 if n % 10 == 9 else 2_000}) for n in range(40)]
    verdict = judge(metadata_growth.CHECK, window(reports, logs=(log(64_000_000, growth=44.8e6 / 86_400),)))
    for words in ("about 256,000 files", "batch 29", "5.0 s longer", "critical in 10d"):
        assert words in verdict.reason, verdict.reason


def test_a_compaction_that_costs_nothing_is_not_said_to_cost_anything() -> None:
    reports = [report(n, top={"batchDuration": 2_000}) for n in range(40)]
    assert "longer" not in judge(metadata_growth.CHECK, window(reports, logs=(log(64_000_000),))).reason


def test_logs_that_were_not_read_are_unknown_and_none_are_well() -> None:
    assert judge(metadata_growth.CHECK, window()).status is UNKNOWN
    assert judge(metadata_growth.CHECK, window(logs=())).status is OK


def test_advise_knows_retention() -> None:
    growing = (log(100_000_000, growth=10e6 / 86_400),)
    history = History(spec=spec(), conf={}, now=NOW, logs=growing)
    found = advise(history)
    assert (found.status, found.settings) == (Decision.CHANGE, {"sink.options.retention": "30 days"})
    assert "critical in 41 days" in found.says
    assert advise(History(spec=spec(), conf={}, now=NOW, logs=(log(1_000),))).status is Decision.KEEP
    declared = spec(sink=ParquetSink(path="/out", options={"retention": "7 days"}))
    assert "after 7 days" in advise(History(spec=declared, conf={}, now=NOW, logs=growing)).says
    assert advise(History(spec=spec(), conf={}, now=NOW)).status is Decision.UNKNOWN
