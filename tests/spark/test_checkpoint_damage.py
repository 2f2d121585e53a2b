"""What the inspector says of a damage is what Spark then does.

For each damage: fork a small query at its newest batch, damage the fork, ask the inspector, then let Spark run the fork
over two more files. REFUSES: it failed, with the error class that was foretold. LOSES: it ended well and the output is
not right, or it ran on until the sink's manifest was compacted. RECOVERS, HARMLESS or no finding: it ended well and the
output is right, row for row.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.files import LocalFiles
from streamwarden.adapters.forks import fork
from streamwarden.checkpoint.findings import Consequence
from streamwarden.checkpoint.report import read_checkpoint
from streamwarden.stream import SinkSpec, SourceSpec, StreamSpec
from support.spark_worker import HDFS, ROCKSDB, Row, SparkWorker, expected_rows, minute_of_rows, publish

pytestmark = pytest.mark.spark

BEFORE, AFTER = 8, 2
# The newest batch is 8: after the 8 with data an append query runs one without, and its state version is 9.
FS = LocalFiles()
ROWS = [row for index in range(BEFORE + AFTER) for row in minute_of_rows(index)]
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
KINDS = {
    "changelog": {PROVIDER: ROCKSDB, CHANGELOG: "true"},
    "zip": {PROVIDER: ROCKSDB, CHANGELOG: "false"},
    "hdfs": {PROVIDER: HDFS, CHANGELOG: "false"},
    "stateless": {PROVIDER: ROCKSDB, CHANGELOG: "true"},
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


def newest(damage: Callable[..., Damage], pattern: str) -> Damage:
    """Apply `damage` to the file with the highest version in each partition."""

    def apply(fork: Path) -> None:
        for partition in (fork / "checkpoint/state/0").glob("[0-9]*"):
            files = sorted(partition.glob(pattern), key=lambda path: int(path.name.partition(".")[0]))
            assert files, f"no {pattern} in {partition}"
            damage(str(files[-1].relative_to(fork)))(fork)

    return apply


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


CASES: dict[str, tuple[str, Damage, Consequence | None]] = {
    "nothing damaged": ("changelog", lambda fork: None, None),
    "last commit lost": ("changelog", lose("checkpoint/commits/8"), None),
    "last two commits lost": ("changelog", lose("checkpoint/commits/[78]"), Consequence.RECOVERS),
    "all commits lost": ("changelog", lose("checkpoint/commits"), Consequence.RECOVERS),
    "last commit cut off": ("changelog", halve("checkpoint/commits/8"), Consequence.REFUSES),
    "older commit cut off": ("changelog", halve("checkpoint/commits/7"), Consequence.HARMLESS),
    "last offsets lost": ("changelog", lose("checkpoint/offsets/8"), Consequence.REFUSES),
    "last offsets empty": ("changelog", empty("checkpoint/offsets/8"), Consequence.REFUSES),
    "offsets before the last lost": ("changelog", lose("checkpoint/offsets/7"), Consequence.REFUSES),
    "older offsets lost": ("changelog", lose("checkpoint/offsets/5"), Consequence.HARMLESS),
    "source log cut off": ("changelog", halve("checkpoint/sources/0/3"), Consequence.REFUSES),
    "source log entry lost": ("changelog", lose("checkpoint/sources/0/3"), Consequence.REFUSES),
    "metadata lost": ("changelog", lose("checkpoint/metadata"), Consequence.REFUSES),
    "metadata empty": ("changelog", empty("checkpoint/metadata"), Consequence.REFUSES),
    "state lost": ("changelog", lose("checkpoint/state"), Consequence.REFUSES),
    "a partition lost": ("changelog", lose("checkpoint/state/0/1"), Consequence.REFUSES),
    "operator metadata lost": ("changelog", lose("checkpoint/state/0/_metadata"), Consequence.RECOVERS),
    "state schema cut off": ("changelog", halve("checkpoint/state/0/0/_metadata/schema"), Consequence.REFUSES),
    "last snapshot cut off": ("changelog", newest(halve, "*.zip"), Consequence.RECOVERS),
    "files of the snapshots lost": ("changelog", lose("checkpoint/state/0/*/SSTs"), Consequence.RECOVERS),
    "snapshots and an early changelog lost": (
        "changelog",
        lose("checkpoint/state/0/*/*.zip", "checkpoint/state/0/*/2.changelog"),
        Consequence.REFUSES,
    ),
    "last full snapshot lost": ("zip", newest(lose, "*.zip"), Consequence.REFUSES),
    "last full snapshot cut off": ("zip", newest(halve, "*.zip"), Consequence.REFUSES),
    "last HDFS snapshot cut off": ("hdfs", newest(halve, "*.snapshot"), Consequence.RECOVERS),
    "all deltas and snapshots of one version lost": (
        "hdfs",
        lose("checkpoint/state/0/*/*.snapshot", "checkpoint/state/0/*/4.delta"),
        Consequence.REFUSES,
    ),
    "manifest entry lost": ("changelog", lose("output/_spark_metadata/5"), Consequence.LOSES),
    "manifest entry empty": ("changelog", empty("output/_spark_metadata/5"), Consequence.LOSES),
    "a data file lost": ("changelog", lambda fork: _data_file(fork).unlink(), Consequence.LOSES),
    "logs behind the manifest": ("stateless", lose("checkpoint/offsets/7", "checkpoint/commits/7"), Consequence.LOSES),
}


def _data_file(fork: Path) -> Path:
    return max(fork.glob("output/*.parquet"), key=lambda path: (path.stat().st_size, path.name))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWorker]:
    quick = {
        "spark.sql.streaming.stateStore.maintenanceInterval": "100ms",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
    }
    worker = SparkWorker(tmp_path_factory.mktemp("worker"), quick)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def origins(tmp_path_factory: pytest.TempPathFactory, spark: SparkWorker) -> dict[str, StreamSpec]:
    """One query of each kind, stopped after 8 files, then two more files for what comes after the damage."""
    specs = {}
    for kind in KINDS:
        root = tmp_path_factory.mktemp(kind)
        specs[kind] = StreamSpec(
            name=kind,
            job=str(root / "job.py"),
            checkpoint=str(root / "checkpoint"),
            source=SourceSpec(path=str(root / "input")),
            sink=SinkSpec(path=str(root / "output")),
        )
        for index in range(BEFORE):
            publish(root / "input", index, minute_of_rows(index))
        assert run(spark, specs[kind], kind) is None
        if kind == "changelog":
            await_snapshots(root)
        for index in range(BEFORE, BEFORE + AFTER):
            publish(root / "input", index, minute_of_rows(index))
    return specs


def run(spark: SparkWorker, spec: StreamSpec, kind: str) -> str | None:
    return spark.run(
        spec.name,
        input=spec.source.path,
        output=spec.sink.path,
        checkpoint=spec.checkpoint,
        options=spec.source.options,
        conf=KINDS[kind],
        stateless=kind == "stateless",
    )


def await_snapshots(root: Path) -> None:
    deadline = time.monotonic() + 20
    while not all(list(partition.glob("*.zip")) for partition in root.glob("checkpoint/state/0/[0-9]*")):
        assert time.monotonic() < deadline, "no snapshot was uploaded"
        time.sleep(0.05)


def rows_of(kind: str) -> list[Row]:
    return sorted((at, key, 1, number) for number, key, at in ROWS) if kind == "stateless" else expected_rows(ROWS)


@pytest.mark.parametrize("case", CASES)
def test_spark_does_what_the_inspector_foretells(
    case: str, origins: dict[str, StreamSpec], spark: SparkWorker, tmp_path: Path
) -> None:
    kind, damage, consequence = CASES[case]
    made = fork(origins[kind], into=tmp_path / "fork", rewind=0)
    damage(tmp_path / "fork")
    report = read_checkpoint(FS, made.spec.checkpoint, output=made.spec.sink.path)
    assert report.worst is consequence, report.findings
    failure = run(spark, made.spec, kind)
    if consequence is Consequence.REFUSES:
        assert failure is not None, report.findings
        foretold = {each.error_class for each in report.findings if each.error_class is not None}
        assert not foretold or any(each in failure for each in foretold), (foretold, failure)
        return
    if consequence is Consequence.LOSES and failure is not None:
        # The query runs on up to the manifest's next compaction, which needs every entry.
        assert "_spark_metadata" in failure, failure
        return
    assert failure is None, (report.findings, failure)
    right = _read(spark, made.spec) == rows_of(kind)
    assert right is (consequence is not Consequence.LOSES)


def _read(spark: SparkWorker, spec: StreamSpec) -> list[Row] | None:
    """The output as Spark's own reader sees it; None if it refuses to."""
    try:
        return spark.rows(spec.sink.path or "")
    except AssertionError:
        return None
