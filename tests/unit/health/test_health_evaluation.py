"""All checks together: on no data, on a real run, and when one of them breaks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamwarden.checkpoint.pattern_names import FilesReadAgain
from streamwarden.checkpoint.skipped import SkippedBatches
from streamwarden.health.check import Check
from streamwarden.health.checks import CHECKS
from streamwarden.health.checks.input.files_read_again import READ_AGAIN
from streamwarden.health.checks.state import state_size
from streamwarden.health.evaluate import evaluate
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status, Verdict, worst_of
from streamwarden.health.window import Batch, Window
from streamwarden.progress import parse_progress
from streamwarden.stream.spec import Backend, HealthSpec, StateSpec, TriggerSpec
from support.streams.health_windows import NOW, driver, judge, log, recorded, report, resident, spec, window


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_no_data_is_unknown_and_never_ok(check: Check) -> None:
    verdict = judge(check, window())
    assert verdict.status is Status.UNKNOWN
    assert verdict.value is None
    assert verdict.reason
    assert verdict.advice == ""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_batches_without_reports_are_no_data_for_checks_of_reports(check: Check) -> None:
    """A kill lost every report; the logs tell the times of the batches and nothing else."""
    batches = tuple(
        Batch(stream="orders", query_id="q", batch_id=n, planned_at=NOW - 100 + n, committed_at=NOW - 99 + n)
        for n in range(20)
    )
    assert judge(check, window(batches=batches)).status is Status.UNKNOWN


@pytest.mark.parametrize("backend", ["rocksdb", "hdfs"])
def test_a_real_run_is_well(backend: str) -> None:
    """The recorded run of Spark 4.3: every check that has its data says OK."""
    reports = [parse_progress(raw) for raw in recorded(backend)]
    now = reports[-1].at + 5
    mine = Window(
        spec=spec(trigger=TriggerSpec(processing_time=20.0), state=StateSpec(backend=Backend(backend))),
        now=now,
        batches=window(reports).batches,
        measurements=resident([9e8] * 5, until=now),
        drivers=(driver(1, reports[0].at - 90, started_at=reports[0].at - 75),),
        driver_alive=True,
        logs=(),
        log=replace(log(12, 12, planned_at=reports[-1].at, committed_at=reports[-1].at + 2), query_id="one"),
        skipped=SkippedBatches(),
        readings={READ_AGAIN: FilesReadAgain()},
    )
    verdicts = {verdict.check: verdict for verdict in evaluate(mine, DEFAULTS)}
    unknown = {name for name, verdict in verdicts.items() if verdict.status is Status.UNKNOWN}
    blind = {"state_growth", "partition_skew", "backlog", "versions_kept"}
    blind |= {"replay_debt", "snapshot_lag"} if backend == "hdfs" else set()
    late = verdicts.pop("late_rows")  # the run read 1 % of its rows five minutes late, on purpose
    assert late.status is Status.WARNING
    assert late.evidence["dropped"] == 588
    assert {verdict.status for name, verdict in verdicts.items() if name not in unknown} == {Status.OK}
    assert unknown <= blind | {"backlog"}


def test_a_check_that_raises_is_unknown_and_the_others_go_on() -> None:
    """Negative control: a broken check is named, with its error, and hides nothing."""

    def broken(_window: Window, _thresholds: object) -> Verdict:
        raise ZeroDivisionError("no rows")

    checks = [replace(state_size.CHECK, name="broken", judge=broken), state_size.CHECK]
    thresholds = replace(DEFAULTS, values={**DEFAULTS.values, "broken": {}})
    first, second = evaluate(window(report(batch) for batch in range(5)), thresholds, checks)
    assert (first.check, first.status) == ("broken", Status.UNKNOWN)
    assert first.reason == "the check itself failed: ZeroDivisionError: no rows"
    assert second.status is Status.OK


def test_a_stream_overrides_thresholds_for_itself_only() -> None:
    reports = [report(batch) for batch in range(5)]  # 2.45 MB of SST, 4.6 MB in memory
    strict = spec(health=HealthSpec(thresholds={"state_size": {"critical": 1_000_000.0, "warning": 1_000.0}}))
    assert judge(state_size.CHECK, window(reports, spec=strict)).status is Status.CRITICAL
    assert judge(state_size.CHECK, window(reports)).status is Status.OK


def test_the_worst_verdict_of_nothing_is_unknown() -> None:
    assert worst_of([]) is Status.UNKNOWN


numbers = st.integers(min_value=0, max_value=10**13)
ages = st.floats(min_value=0, max_value=10**6)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(numbers, min_size=0, max_size=12),
    sst=numbers,
    update=numbers,
    commit=numbers,
    age=ages,
    step=st.floats(min_value=-100, max_value=100),
    gap=st.integers(min_value=0, max_value=2),
)
def test_no_measurement_makes_a_check_raise(
    rows: list[int], sst: int, update: int, commit: int, age: float, step: float, gap: int
) -> None:
    """Any numbers, time running backwards, a clock that is off: every check still gives a verdict of its own."""
    reports = [
        report(
            batch,
            at=NOW - age + step * batch,
            top={"numInputRows": count, "batchDuration": commit % 10**7},
            operator={"allUpdatesTimeMs": update, "commitTimeMs": commit, "numRowsUpdated": count},
            custom={"rocksdbSstFileSize": sst},
            watermark=NOW - age + step * (batch % 3),
        )
        for batch, count in enumerate(rows)
    ]
    last = len(rows) - 1 if rows else None
    mine = window(
        reports,
        measurements=resident([float(sst)] * 4),
        log=log(None if last is None else last + gap, last, planned_at=NOW - age, committed_at=NOW - age),
        drivers=(driver(1, NOW - age),),
        driver_alive=True,
    )
    for verdict in evaluate(mine, DEFAULTS):
        assert "the check itself failed" not in verdict.reason
        assert verdict.reason
        assert bool(verdict.advice) is (verdict.status in (Status.WARNING, Status.CRITICAL))
