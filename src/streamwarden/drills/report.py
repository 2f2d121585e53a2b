"""The report of a drill: one model, which the Markdown below, the web page and the terminal render. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from streamwarden.drills.codec import encode
from streamwarden.drills.journal import DrillRun, DrillStatus, JournalEntry
from streamwarden.drills.outcome import REMEDIATED, describe_not_judged, describe_repeats
from streamwarden.drills.ports import ForkRecord
from streamwarden.drills.state import WRITERS, Recovery, RunState, SteadyState
from streamwarden.lifecycle.recovery import RecoveryPrediction

JOURNAL_FORMAT = 1

_SHOWN = 3
"""Problems, and sample rows of each kind, that a report shows; the journal has all of them."""


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One line of the report. `literal`: the value is a path, an id or data, to be shown as it is."""

    name: str
    value: str
    literal: bool = False


@dataclass(frozen=True, slots=True)
class Detail:
    """Evidence as JSON, for a reader who wants more than the rows."""

    title: str
    data: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """What a person reads about a run, worst news first.

    Args:
        verdict: `PASSED`, `DEVIATED`, `ABORTED`, `FAILED` or `RUNNING`.
        steps: each step that ended, with its outcome.
        entries: the history, without stack traces.
    """

    title: str
    verdict: str
    reason: str
    rows: tuple[ReportRow, ...]
    steps: tuple[ReportRow, ...]
    details: tuple[Detail, ...]
    entries: tuple[JournalEntry, ...]


def verdict_word(run: DrillRun) -> str:
    """`PASSED`, `DEVIATED`, `ABORTED`, `FAILED` or `RUNNING`: both axes in the one word that a table has room for."""
    if run.status is DrillStatus.COMPLETED:
        return "PASSED" if run.passed else "DEVIATED"
    return run.status.value.upper()


def document(run: DrillRun, entries: Sequence[JournalEntry]) -> dict[str, Any]:
    """The journal as JSON: the drill, the fork, the proof, the batches, the reconciliation, every entry."""
    return {
        "format": JOURNAL_FORMAT,
        "run_id": run.run_id,
        "drill": run.drill,
        "stream": run.stream,
        "verdict": verdict_word(run),
        "status": run.status.value,
        "deviated": run.deviated,
        "reason": run.reason,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "facts": dict(run.facts),
        "entries": [{**asdict(entry), "step": entry.step.value} for entry in entries],
    }


def build_report(run: DrillRun, entries: Sequence[JournalEntry]) -> DrillReport:
    """The report of a run as the journal has it. Raises DrillError if the journal cannot be read."""
    state = RunState.of(run)
    return DrillReport(
        title=f"Drill {run.drill} on {run.stream}",
        verdict=verdict_word(run),
        reason=run.reason or "The drill is still running.",
        rows=(*_run(run), *_experiment(state), *_output(state), *_end(state)),
        steps=tuple(
            ReportRow(step.value, f"{each.outcome.value}: {each.message}") for step, each in state.steps.items()
        ),
        details=tuple(_details(state)),
        entries=tuple(entry for entry in entries if entry.kind != "traceback"),
    )


def markdown(report: DrillReport) -> str:
    """The report in Markdown, at most a screen."""
    lines = [f"# {report.title}: {report.verdict}", "", report.reason, "", "| what | result |", "|---|---|"]
    for row in report.rows:
        value = one_line(row.value).replace("|", "\\|")
        lines.append(f"| {row.name} | {f'`{value}`' if row.literal else value} |")
    lines += ["", "## What happened", ""]
    lines += [f"- {_clock(each.at)} {each.step.value}: {one_line(each.message)}" for each in report.entries]
    return "\n".join(lines) + "\n"


def one_line(text: str) -> str:
    """`text` with single spaces for any white space."""
    return " ".join(text.split())


def show_time(at: float) -> str:
    """`2026-01-31 12:00:00 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _run(run: DrillRun) -> Iterator[ReportRow]:
    took = f", took {run.ended_at - run.started_at:.0f} s" if run.ended_at else ""
    unknown = "unknown: the drill says nothing about the stream"
    yield ReportRow("run", run.run_id, literal=True)
    yield ReportRow("started", show_time(run.started_at) + took)
    yield ReportRow("completed", run.status.value)
    yield ReportRow("deviated", {None: unknown, True: "yes", False: "no"}[run.deviated])


def _experiment(state: RunState) -> Iterator[ReportRow]:
    yield ReportRow("fork", _fork(state.fork))
    yield ReportRow("steady state before", _steady(state.steady_before))
    yield ReportRow("fault", _fault(state))
    if state.refusal is not None:
        yield ReportRow("refusal", f"{'yes' if state.refusal.holds else 'no'}: {state.refusal.message}")
    yield _recovery(state, state.recovery)
    for prediction in state.predicted:
        yield ReportRow("recovery predicted", _prediction(prediction))
    yield ReportRow("steady state after", _steady(state.steady_after))


def _fork(fork: ForkRecord | None) -> str:
    if fork is None:
        return "none was made"
    start = "with an empty checkpoint" if fork.batch is None else f"after batch {fork.batch}"
    return f"{fork.stream}, starts {start}, {fork.unseen} input {fork.what}s to read"


def _fault(state: RunState) -> str:
    proof = state.fault
    if proof is not None:
        return f"{proof.kind.value}, landed at attempt {proof.attempts}: {proof.message}"
    return f"missed: {'; '.join(state.misses)}" if state.misses else "did not land"


def _recovery(state: RunState, recovery: Recovery | None) -> ReportRow:
    if recovery is None:
        return ReportRow("recovery", "not observed")
    if recovery.recovery_seconds is None or recovery.restart_seconds is None:
        return ReportRow("recovery", f"never came back: {recovery.message}")
    since = REMEDIATED if state.refusal else "the fault"
    launch = f"{recovery.restart_seconds:.1f} s after the launch" if recovery.restarted else "by the struck driver"
    value = (
        f"batch {recovery.first_new_batch} committed {recovery.recovery_seconds:.1f} s after {since} "
        f"(target {state.drill.recovery.target:.1f} s), {launch}"
    )
    return ReportRow("recovery measured", value)


def _prediction(prediction: RecoveryPrediction) -> str:
    seconds = prediction.seconds
    value = f"{seconds:.1f} s" if seconds is not None else f"unknown ({'; '.join(prediction.missing)})"
    terms = " + ".join(f"{term.name} {term.seconds:.1f} s" for term in prediction.terms)
    return f"{value}: {prediction.formula}{f' ({terms})' if terms else ''}"


def _output(state: RunState) -> Iterator[ReportRow]:
    counts, judgement = state.reconciliation, state.judgement
    if counts is None:
        yield ReportRow("output", "not verified")
        return
    rows = f"{counts.actual} rows, {counts.expected} expected"
    found = f"{counts.lost} lost, {counts.duplicated} duplicated, {counts.unexpected} unexpected, {counts.wrong} wrong"
    yield ReportRow("output", f"{found}: {rows}")
    yield ReportRow("input records verified", str(counts.records))
    if (repeats := describe_repeats(counts)) is not None:
        yield ReportRow("delivery", repeats)
    if (not_judged := describe_not_judged(counts)) is not None:
        yield ReportRow("columns", not_judged)
    yield from (ReportRow("problem", problem) for problem in counts.problems[:_SHOWN])
    if judgement is not None:
        yield ReportRow("judge", f"{judgement.judge} {'accepts' if judgement.success else 'rejects'} the output")
    for kind, samples in counts.samples.items():
        yield from (ReportRow(f"{kind}, for example", sample, literal=True) for sample in samples[:_SHOWN])


def _end(state: RunState) -> Iterator[ReportRow]:
    yield ReportRow("healing", state.healing.message if state.healing else "not done")
    if state.journal is not None:
        yield ReportRow("journal", state.journal, literal=True)


def _details(state: RunState) -> Iterator[Detail]:
    recovery = {"measured": state.recovery, "predicted": state.predicted} if state.recovery else None
    for title, value in (
        ("Judge", state.judgement),
        ("Refusal", state.refusal),
        ("Recovery", recovery),
        ("Fault", state.fault),
    ):
        if value is not None:
            yield Detail(title, encode(value, WRITERS))


def _steady(steady: SteadyState | None) -> str:
    if steady is None:
        return "not observed"
    return f"{'holds' if steady.holds else 'does not hold'}: {steady.message}"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]
