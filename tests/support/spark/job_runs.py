"""A job of the catalogue under real drivers: its input, a SIGKILL in mid-batch, a second life, and forged outputs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters import processes
from streamwarden.config.loading import load_stream
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.progress import Progress
from streamwarden.services.verifying.expectations import judge
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import Backend, StreamSpec, TriggerSpec
from streamwarden.verification.reconciliation import Reconciliation
from support.checkpoints.forged_output import Rows, copied, rewrite
from support.spark.drivers import QUICK, Project, until
from support.spark.mid_batch import kill_in_mid_batch, newest
from support.spark.sessions import run_in
from support.spark.verdicts import verify

REPOSITORY = Path(__file__).resolve().parents[3]
WRITTEN = 1_700_000_000
"""Modification time of the first input file, Unix seconds: 14 November 2023, 22:13:20. Each next one is a second on."""


def publish(folder: Path, texts: Iterable[Sequence[str]], *, name: str = "") -> None:
    """One file for each sequence of lines, in the order in which Spark reads them; `name` begins all their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, lines in enumerate(texts):
        hidden = folder / f".{name}{number:04d}"
        hidden.write_text("".join(f"{line}\n" for line in lines))
        os.utime(hidden, (WRITTEN + number, WRITTEN + number))
        hidden.rename(folder / f"{name}{number:04d}.json")


def stream(name: str, data: Path, backend: Backend) -> StreamSpec:
    """The repository's stream, small and bounded: a file a batch, one core, one partition; ends with its input."""
    spec = load_stream(REPOSITORY / "config/streams" / f"{name}.yaml", project=REPOSITORY, data=data)
    return replace(
        spec,
        name=f"{name}_{backend}",
        source=replace(spec.source, max_files_per_trigger=1),
        sink=replace(spec.sink, path=f"{spec.sink.path}_{backend}"),
        checkpoint=f"{spec.checkpoint}_{backend}",
        quarantine=f"{spec.quarantine}_{backend}",
        trigger=TriggerSpec(available_now=True),
        state=replace(spec.state, backend=backend, shuffle_partitions=1),
        spark=SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=dict(QUICK)),
    )


def in_tiers(first: Backend) -> list[Any]:
    """Parameters of a test: its backend of the first tier, and the other one with `--full`."""
    return [first, *(pytest.param(backend, marks=pytest.mark.full) for backend in Backend if backend is not first)]


def of_tier(config: pytest.Config, first: Backend) -> list[Backend]:
    """The backends of `in_tiers` that this run of the tests judges."""
    return list(Backend) if config.getoption("--full") else [first]


@dataclass
class Survivors:
    """Runs of one job, one a backend, that were killed in mid-batch and brought to their end."""

    project: Project
    specs: dict[Backend, StreamSpec]
    cut: dict[Backend, int]
    """The batch that was planned and not committed when its driver was killed."""
    of_session: dict[Backend, list[Progress]] = field(default_factory=dict)
    """The progress reports of runs that had no driver."""

    def reports(self, backend: Backend) -> list[Progress]:
        """The progress reports by batch: of a driver, those that the store has."""
        if backend in self.of_session:
            return self.of_session[backend]
        window = self.project.store.batches.window(self.specs[backend].name)
        return [batch.progress for batch in window if batch.progress is not None]

    def quarantined(self, backend: Backend) -> list[dict[str, Any]]:
        root = Path(str(self.specs[backend].quarantine))
        return [json.loads(line) for path in root.glob("query=*/batch=*/*.json") for line in path.open()]


def survive(project: Project, specs: Iterable[StreamSpec], *, after: int = 2) -> Survivors:
    """Run all specs at once, kill each driver in the middle of a batch behind `after`, start again, await the end."""
    mine = {spec.state.backend: spec for spec in specs}
    first = {backend: project.start(spec) for backend, spec in mine.items()}
    killed: set[Backend] = set()

    def all_killed() -> bool:
        for backend, spec in mine.items():
            planned, committed = newest(spec.checkpoint, "offsets"), newest(spec.checkpoint, "commits")
            if backend not in killed and planned > max(committed, after):
                process = files.read_process(project.folder(first[backend]))
                assert process is not None
                processes.signal_group(process, signal.SIGKILL)
                killed.add(backend)
        return len(killed) == len(mine)

    logs = partial("\n".join, map(project.log, first.values()))
    until("every driver in mid-batch", all_killed, poll=0.002, told=logs)
    for driver in first.values():
        assert project.await_end(driver).kind is ExitKind.KILLED
    cut = {}
    for backend, spec in mine.items():
        planned, committed = newest(spec.checkpoint, "offsets"), newest(spec.checkpoint, "commits")
        # A kill that came just after the commit counts for nothing: once more.
        cut[backend] = planned if planned > committed else kill_in_mid_batch(project, spec, after=committed)
    _complete(project, mine.values())
    return Survivors(project, mine, cut)


def _complete(project: Project, specs: Iterable[StreamSpec]) -> None:
    """Run all specs at once, each to the end of its input."""
    for driver in [project.start(spec) for spec in specs]:
        assert project.await_end(driver).kind is ExitKind.COMPLETED, project.log(driver)


def brought_to_end(
    request: pytest.FixtureRequest,
    project: Project,
    specs: Sequence[StreamSpec],
    *,
    after: int = 2,
    in_drivers: bool = False,
) -> Survivors:
    """`survive` with `--full`. In the first tier each runs to its end undisturbed, in the session of the tests or in a
    driver: the drills kill with state of Spark's own operators, test_state_evolution with that of a processor."""
    if request.config.getoption("--full"):
        return survive(project, specs, after=after)
    mine = {spec.state.backend: spec for spec in specs}
    if in_drivers:
        _complete(project, specs)
        return Survivors(project, mine, {})
    spark = request.getfixturevalue("spark")
    return Survivors(project, mine, {}, {backend: run_in(spark, spec) for backend, spec in mine.items()})


def passed(spec: StreamSpec) -> Reconciliation:
    """The outcome of a run that is right to the row, for the oracle and for Great Expectations."""
    outcome = verify(spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert judge(outcome).success
    return outcome


def forged(spec: StreamSpec, folder: Path, **changes: Callable[[Rows], Rows]) -> dict[str, tuple[int, int, int, int]]:
    """Change -> (lost, duplicated, unexpected, wrong), and that every change is caught.

    An unchanged copy must be right, a dropped row must be lost, and a repeated row must be a duplicate: that is
    asserted here for every job.
    """
    common: dict[str, Callable[[Rows], Rows]] = {
        "same": lambda rows: rows,
        "dropped": lambda rows: rows[1:],
        "doubled": lambda rows: [*rows, rows[0]],
    }
    counts = {}
    for name, change in {**common, **changes}.items():
        outcome = forge(spec, folder / name, change)
        assert outcome.exactly_once == (name == "same")
        counts[name] = outcome.lost, outcome.duplicated, outcome.unexpected, outcome.wrong
    assert [counts.pop(name) for name in common] == [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0)]
    return counts


def forge(spec: StreamSpec, folder: Path, change: Callable[[Rows], Rows]) -> Reconciliation:
    """The verdict on the same run with the rows of its fullest file changed, as a broken sink would have written it."""
    copy = copied(spec, folder)
    rewrite(copy, change)
    return verify(copy)
