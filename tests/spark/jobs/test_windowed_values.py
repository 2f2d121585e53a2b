"""windowed_values on both state store backends: killed in mid-batch, silent for a while, and right to the row.

The rate source goes by the wall's clock, so windows are seconds here instead of minutes. In the first tier
drills/test_drills_by_a_clock kills this job.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.config.loading import load_stream
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import Backend, StreamSpec, TriggerSpec
from support.spark.drivers import QUICK, Project, project, until
from support.spark.job_runs import REPOSITORY, Survivors, forged, passed
from support.spark.mid_batch import kill_in_mid_batch, newest

pytestmark = [pytest.mark.spark, pytest.mark.full]

CONF = {**QUICK, "spark.sql.streaming.minBatchesToRetain": "2000"}
"""The oracle needs the seconds of each batch."""


def stream(made: Project, backend: Backend) -> StreamSpec:
    spec = load_stream(REPOSITORY / "config/streams/windowed_values.yaml", project=REPOSITORY, data=made.data)
    return replace(
        spec,
        name=f"windowed_values_{backend}",
        args=("window=5s", "slide=2s", "watermark=1s"),
        source=replace(spec.source, options={"rowsPerSecond": "37"}),  # no divisor of 1000: times are rounded
        sink=replace(spec.sink, path=f"{spec.sink.path}_{backend}"),
        checkpoint=f"{spec.checkpoint}_{backend}",
        trigger=TriggerSpec(processing_time=0.5),
        state=replace(spec.state, backend=backend, shuffle_partitions=1),
        spark=SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=CONF),
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivors]:
    with project(tmp_path_factory.mktemp("windowed_values")) as made:
        specs = {backend: stream(made, backend) for backend in Backend}
        cut = {backend: kill_in_mid_batch(made, spec, after=2) for backend, spec in specs.items()}
        second = {backend: made.start(spec) for backend, spec in specs.items()}
        for backend, spec in specs.items():
            until("batches after the kill", lambda s=spec, c=cut[backend]: newest(s.checkpoint, "commits") > c + 8)
            assert made.fleet.stop(spec.name, requested_by="test", reason="enough").exit.kind is ExitKind.STOPPED
            assert made.await_end(second[backend]).kind is ExitKind.STOPPED
        yield Survivors(made, specs, cut)


@pytest.mark.parametrize("backend", Backend)
def test_a_kill_in_mid_batch_changes_no_row(runs: Survivors, backend: Backend) -> None:
    outcome = passed(runs.specs[backend])
    assert outcome.expected > 5
    assert outcome.records > 37 * 10


@pytest.mark.parametrize("backend", Backend)
def test_state_holds_the_open_windows_and_no_more(runs: Survivors, backend: Backend) -> None:
    reports = [report for report in runs.reports(backend) if report.operators and report.rows]
    for report in reports[-5:]:
        seconds = report.rows // 37
        assert report.operators[0].rows_total <= (5 + 1 + seconds) // 2 + 2


def test_a_dropped_a_doubled_and_an_altered_window_are_named(runs: Survivors, tmp_path: Path) -> None:
    found = forged(
        runs.specs[Backend.ROCKSDB],
        tmp_path,
        altered=lambda rows: [{**rows[0], "total": rows[0]["total"] + 1}, *rows[1:]],
    )
    assert found == {"altered": (0, 0, 0, 1)}
