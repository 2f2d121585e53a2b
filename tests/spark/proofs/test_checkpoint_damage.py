"""What the inspector says of a damage is what Spark then does.

For each damage: fork a small query at its newest batch, damage the fork, ask the inspector, then let Spark run the fork
over one more file. REFUSES: it failed before it committed a new batch, with exactly the error class that was foretold.
LOSES: the output is not right, and the query ended well or failed in the very batch that the inspector named. DOUBLES:
it ended well, and the output has every row and some twice. RECOVERS, HARMLESS or no finding: it ended well and the
output is right, row for row.

The origins and the damages are in tests/support/checkpoints/damage_cases.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis import loading
from streamwarden.checkpoint.diagnosis.damage import Consequence, Damage
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.lifecycle.settings import CHECKPOINT_FILES, RENAMED_AT_ONCE
from streamwarden.services.forks.forks import fork
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.damage_cases import (
    AFTER,
    BEFORE,
    CASES,
    COMMIT,
    ENTRY,
    KINDS,
    LIMIT,
    LOSES,
    REFUSES,
    STATE,
    STORES,
    Kind,
)
from support.checkpoints.damage_judge import (
    ORIGINS,
    RandomDamage,
    arguments,
    foretold,
    is_false_alarm,
    is_wrong_fine,
    judge,
    minute_of,
    read_output,
    recorded,
    rows_of,
)
from support.checkpoints.damages import copy, halve, lose
from support.checkpoints.recorded import Archives
from support.spark.worker import Row, SparkWorker, minute_of_rows, publish

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWorker]:
    worker = SparkWorker(tmp_path_factory.mktemp("worker"), {f"{STATE}.maintenanceInterval": "100ms"})
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def driver_spark(spark: SparkWorker) -> SparkWorker:
    """From here on with the file manager that the runner submits on a local disk: it compares files with their checksum
    files. The tests that want it are the last ones."""
    spark.ask("conf", key=CHECKPOINT_FILES, value=RENAMED_AT_ONCE)
    return spark


@pytest.fixture(scope="module")
def origins(tmp_path_factory: pytest.TempPathFactory, spark: SparkWorker) -> dict[str, StreamSpec]:
    """One query of each kind, stopped when it is idle and has the snapshots it should have; then one more file."""
    specs = {}
    archives = Archives(tmp_path_factory.mktemp("archives"))
    for name, kind in KINDS.items():
        root = tmp_path_factory.mktemp("origin")
        specs[name] = StreamSpec(
            name=root.name,
            job=str(root / "job.py"),
            checkpoint=str(root / "checkpoint"),
            source=FilesSource(path=str(root / "input")),
            sink=ParquetSink(path=str(root / "output")),
        )
        for index in range(kind.files):
            publish(root / "input", index, minute_of(kind, index))
        if kind.archive is not None:
            archives.unpack(kind.archive, root)
            publish(root / "input", kind.files, minute_of(kind, kind.files))
            continue
        spark.ask("start", query=name, **_arguments(specs[name], kind))
        _await(lambda root=root, kind=kind: _complete(root, kind), f"{name} did not come to rest")
        spark.ask("stop", query=name)  # one after the other: a query that is idle looks for files all the time
        for index in range(BEFORE, BEFORE + AFTER):
            publish(root / "input", index, minute_of(kind, index))
    return specs


def run(
    spark: SparkWorker, spec: StreamSpec, kind: Kind, options: Mapping[str, str] | None = None, **conf: str
) -> str | None:
    arguments = _arguments(spec, kind, **conf)
    return spark.run(spec.name, **arguments | {"options": {**arguments["options"], **(options or {})}})


def _arguments(spec: StreamSpec, kind: Kind, **conf: str) -> dict[str, Any]:
    made = arguments(kind, spec.source.options, **conf)
    return made | {"input": spec.source.path, "output": spec.sink.path, "checkpoint": spec.checkpoint}


def _complete(root: Path, kind: Kind) -> bool:
    if kind.shape == "rows":
        return (root / f"checkpoint/commits/{BEFORE - 1}").exists()
    partitions = [root / f"checkpoint/state/0/{each}" for each in (0, 1)]
    if kind.shape == "limited":
        return (root / f"checkpoint/commits/{BEFORE - 1}").exists() and (partitions[0] / kind.newest).exists()
    return (root / COMMIT).exists() and all(kind.newest == "" or list(each.glob(kind.newest)) for each in partitions)


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def in_tiers() -> Iterator[Any]:
    """In the first tier each origin, and one case of each outcome and damage, which the last word of its name tells."""
    seen: set[object] = set()
    for case, (origin, _, consequence) in CASES.items():
        kinds = {origin, (consequence, case.rpartition(" ")[2])}
        yield pytest.param(case, marks=[pytest.mark.full] if kinds <= seen else [])
        seen |= kinds


@pytest.mark.parametrize("case", in_tiers())
def test_spark_does_what_the_inspector_foretells(
    case: str, origins: dict[str, StreamSpec], spark: SparkWorker, tmp_path: Path
) -> None:
    name, damage, consequence = CASES[case]
    made = fork(origins[name], into=tmp_path / "fork", rewind=0)
    damage(tmp_path / "fork")
    report = read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path))
    assert report.worst is consequence, report.findings
    gravest = [each for each in report.findings if each.consequence is consequence]
    before = report.position.committed
    failure = run(spark, made.spec, KINDS[name])
    if consequence is Consequence.REFUSES:
        assert failure is not None, gravest
        _require_foretold(gravest, failure)
        assert log_position(open_path(made.spec.checkpoint)).committed in (before, 7), "it ran a batch first"
    elif consequence is Consequence.LOSES:
        _require_loss(gravest, failure, made.spec)
        output = _read(spark, made.spec)
        assert output != rows_of(KINDS[name])
        if any("reader refuses" in each.spark for each in gravest):
            assert output is None
    elif consequence is Consequence.DOUBLES:
        assert failure is None, (report.findings, failure)
        output = _read(spark, made.spec)
        assert output is not None
        assert set(output) == set(rows_of(KINDS[name]))
        assert len(output) > len(set(output))
    else:
        assert failure is None, (report.findings, failure)
        assert _read(spark, made.spec) == rows_of(KINDS[name])


@pytest.mark.parametrize(("at_once", "lost"), [("1", False), ("1000", True)])
def test_a_source_that_lists_again_swallows_new_files_unless_there_is_no_room(
    at_once: str, lost: bool, origins: dict[str, StreamSpec], spark: SparkWorker, tmp_path: Path
) -> None:
    """The newest batch read nothing new, so Spark starts without the newest file of the source's log. The first run
    only lists; the second would read what came since."""
    made = fork(origins["changelog"], into=tmp_path / "fork", rewind=0)
    lose("checkpoint/sources/0/6")(tmp_path / "fork")
    (finding,) = read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path)).findings
    assert (finding.path, finding.consequence) == ("sources/0/6", LOSES)
    for _ in range(2):
        assert run(spark, made.spec, KINDS["changelog"], {"maxFilesPerTrigger": at_once}) is None
    assert (_read(spark, made.spec) != rows_of(KINDS["changelog"])) is lost


@pytest.mark.parametrize("name", ["changelog", "hdfs"])
def test_a_query_with_state_fails_after_the_batches_that_an_older_manifest_lists(
    name: str, origins: dict[str, StreamSpec], spark: SparkWorker, tmp_path: Path
) -> None:
    """Batch 8 is skipped without a word; the batch after it finds no state of batch 8."""
    made = fork(origins[name], into=tmp_path / "fork", rewind=0)
    copy(ENTRY, "output/_spark_metadata/8")(tmp_path / "fork")
    for index in range(BEFORE + AFTER, BEFORE + AFTER + 2):
        publish(Path(made.spec.source.path or ""), index, minute_of_rows(index))
    (finding,) = read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path)).findings
    assert (finding.path, finding.consequence) == ("_spark_metadata/8", LOSES)
    assert "so batch 9 fails" in finding.spark
    failure = run(spark, made.spec, KINDS[name])
    assert failure is not None
    _require_foretold([finding], failure)
    position = log_position(open_path(made.spec.checkpoint))
    assert (position.planned, position.committed) == (9, 8)


def test_spark_repairs_no_snapshot_whose_stand_in_is_too_old(
    origins: dict[str, StreamSpec], spark: SparkWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark replays at most 50 changes after a repair; the limit is made small on both sides."""
    monkeypatch.setattr(loading, "MOST_REPLAYED", 7)
    made = fork(origins["covered"], into=tmp_path / "fork", rewind=0)
    halve(f"{STORES}/*.zip")(tmp_path / "fork")
    findings = read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path)).findings
    assert {(each.consequence, each.error_class) for each in findings} == {(REFUSES, loading.UNREADABLE)}
    failure = run(spark, made.spec, KINDS["covered"], **{LIMIT: "7"})
    assert failure is not None
    _require_foretold(list(findings), failure)


def _require_loss(findings: list[Damage], failure: str | None, spec: StreamSpec) -> None:
    """The query ends well, or it runs on up to the very batch that compacts the manifest, and fails as was said."""
    said = re.search(r"batch (\d+), .*compacts.*fails", findings[0].spark)
    position = log_position(open_path(spec.checkpoint))
    compacting = int(said.group(1)) if said else None
    if compacting is None or (position.planned or 0) < compacting:
        assert failure is None, (findings, failure)
        return
    assert failure is not None, findings
    assert (position.planned, position.committed) == (compacting, compacting - 1), failure
    _require_foretold(findings, failure)
    if findings[0].error_class is None:  # the entry is there and damaged
        assert re.search("Incomplete log file|Unexpected end-of-input|UnsupportedLogVersion", failure), failure[:1000]
    else:
        assert "_spark_metadata" in failure


def _require_foretold(findings: list[Damage], failure: str) -> None:
    """Exactly the error class that Spark gives, or exactly none."""
    classes = re.match(r"(?:\[STREAM_FAILED\] Query .* terminated with exception: )?(?:\[([A-Z0-9_.]+)\])?", failure)
    assert classes is not None
    assert {each.error_class for each in findings} == {classes.group(1)}, failure[:1000]


def _read(spark: SparkWorker, spec: StreamSpec) -> list[Row] | None:
    return read_output(spark, spec.sink.path or "")


@pytest.mark.parametrize("seed", [0, 47, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(94, 450, 47))])
def test_spark_judges_a_random_damage_as_recorded(seed: int, driver_spark: SparkWorker, tmp_path: Path) -> None:
    """A sample of `benchmarks/checkpoint_damage`, which judges hundreds; tests/unit/checkpoint/test_random_damages.py
    compares the recorded judgements with what the inspector says."""
    given = RandomDamage(seed=seed)
    what = given.make(tmp_path)
    said = foretold(tmp_path)
    judgement, why = judge(driver_spark, tmp_path, ORIGINS[given.archive])
    assert judgement is recorded()[seed], (what, why)
    assert not is_wrong_fine(said, judgement), (what, said, judgement, why)
    assert not is_false_alarm(said, judgement), (what, said, judgement, why)
