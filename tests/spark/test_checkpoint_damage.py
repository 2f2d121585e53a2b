"""What the inspector says of a damage is what Spark then does.

For each damage: fork a small query at its newest batch, damage the fork, ask the inspector, then let Spark run the fork
over one more file. REFUSES: it failed before it committed a new batch, with exactly the error class that was foretold.
LOSES: the output is not right, and the query ended well or failed in the very batch that the inspector named. RECOVERS,
HARMLESS or no finding: it ended well and the output is right, row for row.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.files import LocalFiles
from streamwarden.adapters.forks import fork
from streamwarden.checkpoint import loading
from streamwarden.checkpoint.findings import Consequence, Finding
from streamwarden.checkpoint.logs import log_position
from streamwarden.checkpoint.report import read_checkpoint
from streamwarden.stream import SinkSpec, SourceSpec, StreamSpec
from support.spark_worker import HDFS, ROCKSDB, Row, SparkWorker, expected_rows, minute_of_rows, publish

pytestmark = pytest.mark.spark

BEFORE, AFTER = 7, 1
# The newest batch is 7: after the 7 with data an append query runs one without. Its state version is 8. The run after
# the damage has batch 8 with the new file, and batch 9, which has none and compacts the sink's manifest.
FS = LocalFiles()
ROWS = [row for index in range(BEFORE + AFTER) for row in minute_of_rows(index)]
STATE = "spark.sql.streaming.stateStore"
CHANGELOG = {f"{STATE}.providerClass": ROCKSDB, f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true"}
FULL = {f"{STATE}.providerClass": ROCKSDB, f"{STATE}.rocksdb.changelogCheckpointing.enabled": "false"}
DELTAS = {f"{STATE}.providerClass": HDFS, f"{STATE}.rocksdb.changelogCheckpointing.enabled": "false"}
MINIMUM, FORMAT = f"{STATE}.minDeltasForSnapshot", f"{STATE}.checkpointFormatVersion"
LIMIT = f"{STATE}.autoSnapshotRepair.maxChangeFileReplay"


@dataclass(frozen=True)
class Kind:
    """An origin: its settings, and the one snapshot that each partition has once `newest` is there."""

    conf: Mapping[str, str]
    newest: str
    format: str = "1"
    stateless: bool = False


# So many deltas to a snapshot that there is exactly one: of the newest version (covered), of version 5, or none.
KINDS = {
    "covered": Kind({**CHANGELOG, MINIMUM: "8"}, "8.zip"),
    "changelog": Kind({**CHANGELOG, MINIMUM: "5"}, "5.zip"),
    "zip": Kind({**FULL, MINIMUM: "5"}, "8.zip"),
    "hdfs covered": Kind({**DELTAS, MINIMUM: "7"}, "8.snapshot"),
    "hdfs": Kind({**DELTAS, MINIMUM: "100"}, "8.delta"),
    "format 2": Kind({**CHANGELOG, MINIMUM: "5"}, "5_*.zip", format="2"),
    "stateless": Kind({**CHANGELOG, MINIMUM: "5"}, "", stateless=True),
}

Damage = Callable[[Path], object]


def lose(*names: str) -> Damage:
    return lambda fork: [each.unlink() if each.is_file() else shutil.rmtree(each) for each in _found(fork, names)]


def halve(*names: str) -> Damage:
    return lambda fork: [
        each.write_bytes(each.read_bytes()[: each.stat().st_size // 2]) for each in _found(fork, names)
    ]


def empty(*names: str) -> Damage:
    return lambda fork: [_cut(each, 0) for each in _found(fork, names)]


def flip(*names: str) -> Damage:
    """One bit in the middle. A fork has no checksum files beside its state: only the file itself can tell."""

    def apply(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x40
        path.write_bytes(bytes(content))

    return lambda fork: [apply(each) for each in _found(fork, names)]


def both(*damages: Damage) -> Damage:
    return lambda fork: [damage(fork) for damage in damages]


def _cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def _found(fork: Path, names: tuple[str, ...]) -> list[Path]:
    """The files are hard links of the origin's: each is replaced by a copy before it is damaged."""
    found = [path for name in names for path in sorted(fork.glob(name))]
    assert found, f"nothing to damage: {names}"
    for path in found:
        if path.is_file():
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content)
    return found


COMMIT, OFFSETS, ENTRY = "checkpoint/commits/7", "checkpoint/offsets/7", "output/_spark_metadata/7"
STORES = "checkpoint/state/0/*"
HARMLESS, RECOVERS, REFUSES, DOUBLES, LOSES = Consequence

# Case -> (origin, damage, what the inspector must foretell). Spark is the judge of what was foretold.
CASES: dict[str, tuple[str, Damage, Consequence | None]] = {
    "nothing damaged": ("changelog", lambda fork: None, None),
    # The logs.
    "last commit lost": ("changelog", lose(COMMIT), None),
    "last commit and its manifest entry lost": ("changelog", lose(COMMIT, ENTRY), None),
    "last batch undone": ("changelog", lose(COMMIT, ENTRY, OFFSETS), None),
    "last two commits lost": ("changelog", lose("checkpoint/commits/[67]"), RECOVERS),
    "all commits lost": ("changelog", lose("checkpoint/commits"), RECOVERS),
    "last commit cut off": ("changelog", halve(COMMIT), REFUSES),
    "older commit cut off": ("changelog", halve("checkpoint/commits/6"), HARMLESS),
    "last offsets lost": ("changelog", lose(OFFSETS), REFUSES),
    "last offsets empty": ("changelog", empty(OFFSETS), REFUSES),
    "offsets before the last lost": ("changelog", lose("checkpoint/offsets/6"), REFUSES),
    "older offsets lost": ("changelog", lose("checkpoint/offsets/4"), HARMLESS),
    "source log cut off": ("changelog", halve("checkpoint/sources/0/3"), REFUSES),
    "source log entry lost": ("changelog", lose("checkpoint/sources/0/3"), REFUSES),
    "metadata lost": ("changelog", lose("checkpoint/metadata"), REFUSES),
    "metadata empty": ("changelog", empty("checkpoint/metadata"), REFUSES),
    # The state as a whole.
    "state lost": ("changelog", lose("checkpoint/state"), REFUSES),
    "a partition lost": ("changelog", lose("checkpoint/state/0/1"), REFUSES),
    "operator metadata lost": ("changelog", lose("checkpoint/state/0/_metadata"), RECOVERS),
    "state schema cut off": ("changelog", halve("checkpoint/state/0/0/_metadata/schema"), REFUSES),
    # RocksDB with changelogs, the newest version without a snapshot of its own.
    "last changelog lost": ("changelog", lose(f"{STORES}/8.changelog"), REFUSES),
    "last changelog of one partition lost": ("changelog", lose("checkpoint/state/0/1/8.changelog"), REFUSES),
    "last changelog cut off": ("changelog", halve(f"{STORES}/8.changelog"), REFUSES),
    "last changelog empty": ("changelog", empty(f"{STORES}/8.changelog"), REFUSES),
    "last changelog flipped": ("changelog", flip(f"{STORES}/8.changelog"), REFUSES),
    "changelog after the snapshot lost": ("changelog", lose(f"{STORES}/6.changelog"), REFUSES),
    "changelog before the snapshot lost": ("changelog", lose(f"{STORES}/2.changelog"), None),
    "snapshots cut off": ("changelog", halve(f"{STORES}/*.zip"), RECOVERS),
    "files of the snapshots lost": ("changelog", lose(f"{STORES}/SSTs"), RECOVERS),
    "snapshots and an early changelog lost": (
        "changelog",
        lose(f"{STORES}/*.zip", f"{STORES}/2.changelog"),
        REFUSES,
    ),
    "snapshots cut off and an early changelog lost": (
        "changelog",
        both(halve(f"{STORES}/*.zip"), lose(f"{STORES}/2.changelog")),
        REFUSES,
    ),
    "snapshots and an early changelog cut off": (
        "changelog",
        halve(f"{STORES}/*.zip", f"{STORES}/2.changelog"),
        REFUSES,
    ),
    "last commit and changelog lost": ("changelog", lose(COMMIT, f"{STORES}/8.changelog"), REFUSES),
    "last commit, its manifest entry and changelog lost": (
        "changelog",
        lose(COMMIT, ENTRY, f"{STORES}/8.changelog"),
        None,
    ),
    # ... with a snapshot of the newest version.
    "covered changelog lost": ("covered", lose(f"{STORES}/8.changelog"), None),
    "covered changelog cut off": ("covered", halve(f"{STORES}/8.changelog"), None),
    "covered changelog empty": ("covered", empty(f"{STORES}/8.changelog"), None),
    "covering snapshot cut off and an early changelog lost": (
        "covered",
        both(halve(f"{STORES}/*.zip"), lose(f"{STORES}/2.changelog")),
        REFUSES,
    ),
    "snapshot newer than the last commit": ("covered", lose(COMMIT, ENTRY), None),
    "snapshot newer than the last commit, an early changelog lost": (
        "covered",
        lose(COMMIT, ENTRY, f"{STORES}/2.changelog"),
        REFUSES,
    ),
    "last commit and an early changelog lost": ("covered", lose(COMMIT, f"{STORES}/2.changelog"), None),
    # RocksDB without changelogs.
    "last full snapshot lost": ("zip", lose(f"{STORES}/8.zip"), REFUSES),
    "last full snapshot cut off": ("zip", halve(f"{STORES}/8.zip"), REFUSES),
    "files of the full snapshots lost": ("zip", lose(f"{STORES}/SSTs"), REFUSES),
    # HDFS-backed.
    "last delta lost": ("hdfs", lose(f"{STORES}/8.delta"), REFUSES),
    "last delta cut off": ("hdfs", halve(f"{STORES}/8.delta"), REFUSES),
    "last delta flipped": ("hdfs", flip(f"{STORES}/8.delta"), REFUSES),
    "early delta lost": ("hdfs", lose(f"{STORES}/4.delta"), REFUSES),
    "covered delta lost": ("hdfs covered", lose(f"{STORES}/8.delta"), None),
    "last HDFS snapshot cut off": ("hdfs covered", halve(f"{STORES}/8.snapshot"), RECOVERS),
    "last HDFS snapshot cut off and an early delta lost": (
        "hdfs covered",
        both(halve(f"{STORES}/8.snapshot"), lose(f"{STORES}/4.delta")),
        REFUSES,
    ),
    # Checkpoint format 2.
    "format 2: last changelog lost": ("format 2", lose(f"{STORES}/8_*.changelog"), REFUSES),
    "format 2: last changelog cut off": ("format 2", halve(f"{STORES}/8_*.changelog"), REFUSES),
    "format 2: snapshots cut off": ("format 2", halve(f"{STORES}/*.zip"), RECOVERS),
    "format 2: snapshots lost": ("format 2", lose(f"{STORES}/*.zip"), REFUSES),
    "format 2: last commit lost": ("format 2", lose(COMMIT), REFUSES),
    "format 2: last commit and its manifest entry lost": ("format 2", lose(COMMIT, ENTRY), None),
    # The sink's manifest.
    "manifest entry lost": ("changelog", lose("output/_spark_metadata/5"), LOSES),
    "manifest entry empty": ("changelog", empty("output/_spark_metadata/5"), LOSES),
    "manifest entry cut off": ("changelog", halve("output/_spark_metadata/5"), LOSES),
    "last manifest entry lost": ("changelog", lose(ENTRY), LOSES),
    "manifest lost": ("changelog", lose("output/_spark_metadata"), LOSES),
    "a data file lost": ("changelog", lambda fork: _data_file(fork).unlink(), LOSES),
    "logs behind the manifest": ("stateless", lose("checkpoint/offsets/6", "checkpoint/commits/6"), LOSES),
}


def _data_file(fork: Path) -> Path:
    return max(fork.glob("output/*.parquet"), key=lambda path: (path.stat().st_size, path.name))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWorker]:
    worker = SparkWorker(tmp_path_factory.mktemp("worker"), {f"{STATE}.maintenanceInterval": "100ms"})
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def origins(tmp_path_factory: pytest.TempPathFactory, spark: SparkWorker) -> dict[str, StreamSpec]:
    """One query of each kind, stopped when it is idle and has the snapshots it should have; then one more file."""
    specs = {}
    for name, kind in KINDS.items():
        root = tmp_path_factory.mktemp("origin")
        specs[name] = StreamSpec(
            name=root.name,
            job=str(root / "job.py"),
            checkpoint=str(root / "checkpoint"),
            source=SourceSpec(path=str(root / "input")),
            sink=SinkSpec(path=str(root / "output")),
        )
        for index in range(BEFORE):
            publish(root / "input", index, minute_of_rows(index))
        spark.ask("start", query=name, **_arguments(specs[name], kind))
    for name, kind in KINDS.items():
        root = Path(specs[name].checkpoint).parent
        _await(lambda root=root, kind=kind: _complete(root, kind), f"{name} did not come to rest")
        spark.ask("stop", query=name)
        for index in range(BEFORE, BEFORE + AFTER):
            publish(root / "input", index, minute_of_rows(index))
    return specs


def run(spark: SparkWorker, spec: StreamSpec, kind: Kind, **conf: str) -> str | None:
    return spark.run(spec.name, **_arguments(spec, kind, **conf))


def _arguments(spec: StreamSpec, kind: Kind, **conf: str) -> dict[str, Any]:
    return {
        "input": spec.source.path,
        "output": spec.sink.path,
        "checkpoint": spec.checkpoint,
        "options": spec.source.options,
        "conf": {**kind.conf, FORMAT: kind.format, LIMIT: "50", **conf},
        "stateless": kind.stateless,
    }


def _complete(root: Path, kind: Kind) -> bool:
    if kind.stateless:
        return (root / f"checkpoint/commits/{BEFORE - 1}").exists()
    partitions = [root / f"checkpoint/state/0/{each}" for each in (0, 1)]
    return (root / COMMIT).exists() and all(list(each.glob(kind.newest)) for each in partitions)


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def rows_of(kind: Kind) -> list[Row]:
    return sorted((at, key, 1, number) for number, key, at in ROWS) if kind.stateless else expected_rows(ROWS)


@pytest.mark.parametrize("case", CASES)
def test_spark_does_what_the_inspector_foretells(
    case: str, origins: dict[str, StreamSpec], spark: SparkWorker, tmp_path: Path
) -> None:
    name, damage, consequence = CASES[case]
    made = fork(origins[name], into=tmp_path / "fork", rewind=0)
    damage(tmp_path / "fork")
    report = read_checkpoint(FS, made.spec.checkpoint, output=made.spec.sink.path)
    assert report.worst is consequence, report.findings
    gravest = [each for each in report.findings if each.consequence is consequence]
    failure = run(spark, made.spec, KINDS[name])
    if consequence is Consequence.REFUSES:
        assert failure is not None, gravest
        _require_foretold(gravest, failure)
        assert log_position(FS, made.spec.checkpoint).committed in (None, *range(8)), "it ran a batch first"
    elif consequence is Consequence.LOSES:
        _require_loss(gravest, failure, made.spec)
        output = _read(spark, made.spec)
        assert output != rows_of(KINDS[name])
        if any("reader refuses" in each.spark for each in gravest):
            assert output is None
    else:
        assert failure is None, (report.findings, failure)
        assert _read(spark, made.spec) == rows_of(KINDS[name])


def test_spark_repairs_no_snapshot_whose_stand_in_is_too_old(
    origins: dict[str, StreamSpec], spark: SparkWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark replays at most 50 changes after a repair; the limit is made small on both sides."""
    monkeypatch.setattr(loading, "MOST_REPLAYED", 7)
    made = fork(origins["covered"], into=tmp_path / "fork", rewind=0)
    halve(f"{STORES}/*.zip")(tmp_path / "fork")
    findings = read_checkpoint(FS, made.spec.checkpoint, output=made.spec.sink.path).findings
    assert {(each.consequence, each.error_class) for each in findings} == {(REFUSES, loading.UNREADABLE)}
    failure = run(spark, made.spec, KINDS["covered"], **{LIMIT: "7"})
    assert failure is not None
    _require_foretold(list(findings), failure)


def _require_loss(findings: list[Finding], failure: str | None, spec: StreamSpec) -> None:
    """The query ends well, or it runs on up to the very batch that compacts the manifest, and fails as was said."""
    said = re.search(r"batch (\d+), .*compacts.*fails", findings[0].spark)
    if said is None:
        assert failure is None, (findings, failure)
        return
    assert failure is not None, findings
    compacting = int(said.group(1))
    position = log_position(FS, spec.checkpoint)
    assert (position.planned, position.committed) == (compacting, compacting - 1), failure
    _require_foretold(findings, failure)
    if findings[0].error_class is None:  # the entry is there and damaged
        assert "Incomplete log file" in failure or "Unexpected end-of-input" in failure
    else:
        assert "_spark_metadata" in failure


def _require_foretold(findings: list[Finding], failure: str) -> None:
    """Exactly the error class that Spark gives, or exactly none."""
    classes = re.match(r"(?:\[STREAM_FAILED\] Query .* terminated with exception: )?(?:\[([A-Z0-9_.]+)\])?", failure)
    assert classes is not None
    assert {each.error_class for each in findings} == {classes.group(1)}, failure[:1000]


def _read(spark: SparkWorker, spec: StreamSpec) -> list[Row] | None:
    """The output as Spark's own reader sees it; None if it refuses to."""
    try:
        return spark.rows(spec.sink.path or "")
    except AssertionError:
        return None
