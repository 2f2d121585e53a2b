"""What the benchmarks count: the arithmetic behind the figures of docs/benchmarks.md, without Spark."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


def load(name: str) -> ModuleType:
    """The script of one benchmark, as a module."""
    found = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / name / "run.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[module.__name__] = module  # dataclasses look their own module up
    found.loader.exec_module(module)
    return module


def test_the_wait_of_a_producer_that_cannot_send_is_part_of_the_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that stands still for half a second does not move the schedule: the events of that time are late."""
    real_time, ended = load("real_time_latency"), threading.Event()
    sent: list[float] = []

    class Stalling:
        def __init__(self, settings: dict[str, Any]) -> None: ...

        def produce(self, *args: Any, **kwargs: Any) -> None:
            if not sent:
                time.sleep(0.5)
            sent.append(time.monotonic())
            if len(sent) > 30:
                ended.set()

        def poll(self, timeout: float) -> None: ...
        def flush(self, timeout: float) -> None: ...

    monkeypatch.setattr(confluent_kafka, "Producer", Stalling)
    traffic = real_time.Traffic()
    real_time.send(SimpleNamespace(settings={}), "events", 100.0, traffic, ended)
    due = list(traffic.due.values())
    steps = [later - earlier for earlier, later in pairwise(due)]
    assert steps == pytest.approx([0.01] * len(steps)), "each event is due a hundredth of a second after the last"
    assert sent[2] - due[1] >= 0.4, "it was sent long after it was due, and its latency counts from then on"


def test_a_commit_is_marked_with_the_longest_wait_around_it() -> None:
    """And with no wait of another time."""
    real_time = load("real_time_latency")
    latencies = {10.0: 30.0, 19.5: 600.0, 20.5: 900.0, 29.0: 5000.0}
    assert real_time.pause(latencies, 20.0) == 900.0


def test_the_report_shows_the_tail_and_each_commit() -> None:
    """Of 1,000 events 20 waited for a commit: half of the percentiles know nothing of it, the tail does."""
    real_time = load("real_time_latency")
    waits = tuple([30.0] * 980 + [500.0] * 18 + [700.0, 800.0])
    spent = {"queryPlanning": 40, "triggerExecution": 30_000}
    commits = (real_time.Commit(0, False, 1900.0, {}), real_time.Commit(3, True, 800.0, spent))
    text = real_time.report({"real-time mode": real_time.Measured(waits, commits)}, 100.0)
    assert "| real-time mode | 1,000 | 30 ms | 500 ms | 700 ms | 800 ms | 2.0% |" in text
    assert "1 commits; the longest wait of an event around each: 800 ms." in text
    assert "| 0 (warm-up) | 1,900 ms | 0 ms |" in text
    assert "| 3 | 800 ms | 40 ms |" in text


def test_the_stages_of_a_recovery_are_its_whole_time() -> None:
    """What comes before the driver's process is ours."""
    recovery = load("recovery").Recovery(100.0, 100.5, 102.5, 102.75, 108.0, 112.0)
    assert recovery.stages() == (0.5, 2.0, 0.25, 5.25, 4.0)
    assert (recovery.total, recovery.ours) == (12.0, 2.75)


def test_only_the_trigger_of_the_killed_driver_has_noticed_its_end() -> None:
    """Its log line says when."""
    fired_at = load("recovery").fired_at
    line = '{"timestamp": "2026-01-01T00:00:01.500000Z", "event": "Trigger fired event", "result": "… driver-1 …"}'
    assert fired_at(line, "driver-1") == 1767225601.5
    assert fired_at(line, "driver-2") is None
    assert fired_at("fired, it says of driver-1", "driver-1") is None


@pytest.mark.parametrize(("without_pauses", "part", "expected"), [(1.5, 0.05, 0.025), (1.0, 0.05, 0.0)])
def test_the_cost_of_an_audit_is_that_without_pauses_for_the_part_of_the_time_that_it_runs(
    without_pauses: float, part: float, expected: float
) -> None:
    """Batches of a second, back to back, which are slower in each stretch in which the reading runs. One that reaches
    into the next stretch belongs to none."""
    audit = load("audit")
    stretches, batches, now = [], [], 0.0
    for share, took in ((1.0, without_pauses), (0.0, 1.0), (part, 1.02), (0.0, 1.0)) * 5:
        end = now + 10.25
        stretches.append(audit.Stretch(now, end, share, share))
        while now < end:
            batches.append(audit.Batch(now, took))
            now += took
        now = end
    measured = audit.Measured(part, stretches, batches, [], 0.0)
    whole, gentle = audit.Effect.of(measured, 1.0), audit.Effect.of(measured, part)
    assert whole.times(part).startswith(f"**{expected:+.2%}**")
    assert gentle.ratio == pytest.approx(0.02)
    assert whole.pairs == gentle.pairs == 5
    assert gentle.batches == (50, 50)


def test_the_stretches_of_an_audit_alternate_and_say_for_how_long_the_reading_was_not_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audit = load("audit")
    monkeypatch.setattr(audit, "STRETCH", 0.25)
    waiting = audit.Alternation(0.1, lambda: len(waiting.stretches) == 4)
    monkeypatch.setattr("streamwarden.services.fleet.launching.one_off_spark.pause", waiting.pause)
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        with pytest.raises(audit.Over):
            waiting.wait(process, 0.1, 60.0)
    finally:
        process.kill()
        process.wait()
    assert [each.share for each in waiting.stretches] == [1.0, 0.0, 0.1, 0.0]
    whole, held, gentle, _ = (each.ran for each in waiting.stretches)
    assert (whole, held) == (1.0, pytest.approx(0.0, abs=0.02))
    assert 0.05 < gentle < 0.3


def test_each_benchmark_has_a_quick_run_with_arguments_that_it_takes() -> None:
    """`make bench QUICK=1` reads the list: a benchmark that is not in it would never run before a release."""
    lines = [line.split() for line in (BENCHMARKS / "quick.txt").read_text().splitlines() if not line.startswith("#")]
    assert sorted(line[0] for line in lines) == sorted(path.parent.name for path in BENCHMARKS.glob("*/run.py"))
    for name, *arguments in lines:
        script = "".join(path.read_text() for path in (BENCHMARKS / name).glob("*.py"))
        unknown = [word for word in arguments if word.startswith("--") and f'"{word}"' not in script]
        assert not unknown, f"{name} has no {unknown}"
        assert arguments, f"{name} would run in full"


def test_a_group_is_compared_by_its_memory_and_by_the_processor_time_of_a_batch() -> None:
    """A way that commits half as many batches with half the processor is no cheaper."""
    groups = load("groups")
    one = groups.Cost(started=20.0, memory=1_000_000_000, processor=0.2, batches=2.0, processes=8)
    each = groups.Cost(started=60.0, memory=4_000_000_000, processor=0.4, batches=4.0, processes=16)
    table = groups.report({"one group": one, "a JVM each": each}, 4)
    assert "| one group | 1.00 GB | 0.20 | 2.0 | 20 s | 8 |" in table
    assert "the group needs 0.25 of the memory, and a batch of it 1.00 of the processor time" in table
    assert "250 MB and 1000 MB a stream" in table
