"""Two runs of drills side by side: what differs in what they did, in what they measured and in the versions. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from streamwarden.drills.records.codec import encode
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.report import show_time, verdict_word
from streamwarden.drills.state import FaultResult, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One value of both runs. `change`: (B - A) / A, for two numbers of which A is not 0."""

    name: str
    first: object
    second: object
    change: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs.

    Args:
        job: whether the code of the job is the same in both, in words.
        measured: verdict, recovery, batches, counts: also what is equal.
        settings: keys of the drills' files that differ.
        versions: what the runs were made with, where it differs.
    """

    first: str
    second: str
    job: str
    measured: tuple[Difference, ...]
    settings: tuple[Difference, ...]
    versions: tuple[Difference, ...]


def compare(first: DrillRun, second: DrillRun) -> Comparison:
    """Raises DrillError if a journal cannot be read."""
    one, other = RunState.of(first), RunState.of(second)
    facts, others = dict(_facts(first, one)), dict(_facts(second, other))
    return Comparison(
        first=first.run_id,
        second=second.run_id,
        job=_job(first.stream, second.stream, one.code, other.code),
        measured=tuple(
            _difference(name, facts.get(name), others.get(name)) for name in dict.fromkeys((*facts, *others))
        ),
        settings=_differing(dict(_flat(encode(one.drill))), dict(_flat(encode(other.drill)))),
        versions=_differing(one.versions, other.versions),
    )


def _job(first: str, second: str, code: Mapping[str, str], other: Mapping[str, str]) -> str:
    """`job: changed (jobs/orders.py)`: names the files that differ, that are new, and that are gone."""
    if first != second:
        return f"job: of two streams, {first} and {second}"
    if not code or not other:
        return "job: unknown, because a run did not record the code of its job"
    files = sorted(name for name in {*code, *other} if code.get(name) != other.get(name))
    return f"job: changed ({', '.join(files)})" if files else "job: the same code"


def _facts(run: DrillRun, state: RunState) -> Iterator[tuple[str, object]]:
    yield "verdict", verdict_word(run)
    yield "started", show_time(run.started_at)
    yield "seconds in all", None if run.ended_at is None else round(run.ended_at - run.started_at, 1)
    if len(state.plan.order) > 1:
        yield "faults", ", ".join(fault.kind for fault in state.fault_specs)
        yield "seed", None if state.drill.seed is None else state.plan.seed
    for number, result in enumerate(state.results, start=1):
        of = "" if len(state.plan.order) == 1 else f" ({number}. {result.spec.kind})"
        yield from ((f"{name}{of}", value) for name, value in _of_fault(result))
    spans = [batch.seconds for batch in state.batches if batch.seconds is not None]
    yield "batches", len(state.batches)
    yield "median seconds of a batch", round(median(spans), 3) if spans else None
    if state.audit is not None:
        yield "records audited", state.audit.records
    counts = state.reconciliation
    for name in ("records", "expected", "actual", "lost", "duplicated", "unexpected", "wrong", "repeated"):
        yield name, None if counts is None else getattr(counts, name)


def _of_fault(result: FaultResult) -> Iterator[tuple[str, object]]:
    yield "attempts of the fault", result.landed.attempts if result.landed is not None else None
    recovery = result.recovery
    yield "recovery, seconds from the fault", None if recovery is None else recovery.recovery_seconds
    yield "restart, seconds from the launch", None if recovery is None else recovery.restart_seconds
    for prediction in result.predicted:
        yield f"predicted seconds: {prediction.formula}", prediction.seconds


def _flat(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """`{"fork": {"rewind": 5}}` as `fork.rewind`, 5, and a part of `faults` as `faults.1.kind`. The file's own path is
    not a setting."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for number, part in enumerate(value, start=1):
            yield from _flat(part, f"{name}.{number}")
    elif name != "file":
        yield name, value


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[Difference, ...]:
    names = sorted({*first, *second})
    return tuple(
        _difference(name, first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)
    )


def _difference(name: str, first: object, second: object) -> Difference:
    change = None
    if isinstance(first, int | float) and isinstance(second, int | float) and first:
        change = second / first - 1
    return Difference(name=name, first=first, second=second, change=change)
