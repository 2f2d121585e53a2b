"""The report of a drill: one model, which the Markdown below, the web page and the terminal render. Pure.

In the order in which a person reads: one plain sentence, the course, the evidence, how the recovery was predicted. The
journal, which is JSON, is a file beside the report, and a link on the page.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from streamwarden.drills.records.codec import encode
from streamwarden.drills.records.journal import DrillRun, DrillStatus, JournalEntry
from streamwarden.drills.records.sections import DrillTarget
from streamwarden.drills.records.twin import TwinReport, describe_key, describe_left_out, describe_run
from streamwarden.drills.records.types import ForkRecord
from streamwarden.drills.reporting.expectations import Expectation, expectations_of
from streamwarden.drills.reporting.limits import limits_of
from streamwarden.drills.reporting.outcome import REMEDIATED, describe_input, describe_not_judged, describe_repeats
from streamwarden.drills.reporting.sentence import sentence
from streamwarden.drills.reporting.timeline import Moment, timeline
from streamwarden.drills.state import Approval, FaultResult, Recovery, RunState, SteadyState
from streamwarden.lifecycle.recovery import RecoveryPrediction, Term
from streamwarden.units import format_list
from streamwarden.verification.comparing.samples import Sample, parse_sample
from streamwarden.verification.reconciliation import Reconciliation

JOURNAL_FORMAT = 1

BOUND_NOTE = (
    "An upper bound of the replay alone: it assumes that every batch since the last snapshot is done again as a whole. "
    "The measurement contains everything until the first new batch, the start of the driver included; the error "
    "compares the two as they are."
)
_SHOWN = 3
"""Problems, and sample rows of each kind, that a report shows; the journal has all of them."""


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One line of the report.

    Args:
        literal: the value is a path, an id or data, to be shown as it is.
        sample: it is a row of the output; the report also has it as a `Deviation`.
    """

    name: str
    value: str
    literal: bool = False
    sample: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A row of the output that is not as it should be.

    Args:
        kind: lost, duplicated, unexpected or wrong.
        oracles: which oracles say so.
    """

    kind: str
    sample: Sample
    oracles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A predicted recovery beside the measured one, seconds.

    Args:
        fault: its kind; since: from when both count.
        predicted, measured: None if it is not known; then `missing` says why there is no prediction.
        note: what the formula leaves out of the measurement; empty: nothing.
    """

    fault: str
    formula: str
    since: str
    predicted: float | None
    measured: float | None
    terms: tuple[Term, ...]
    missing: tuple[str, ...]
    note: str

    @property
    def error(self) -> float | None:
        """0.25: the prediction was a quarter too long."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """The report of a run.

    Args:
        verdict: `PASSED`, `DEVIATED`, `ABORTED`, `FAILED` or `RUNNING`.
        sentence: the result for a reader who knows neither Spark nor drills.
        timeline: the course, a handful of moments.
        rows: the evidence.
        explanations: how the recovery was predicted, and what else bounds it.
        predictions: the same as numbers.
        deviations: every row that the journal has of those that were lost, duplicated, unexpected or wrong.
        expectations: of the judge, in words.
        journal: path of the journal on the host of the drill; None until it is written.
        entries: every line of the journal, without stack traces.
    """

    run_id: str
    title: str
    verdict: str
    sentence: str
    timeline: tuple[Moment, ...]
    rows: tuple[ReportRow, ...]
    explanations: tuple[ReportRow, ...]
    predictions: tuple[Prediction, ...]
    deviations: tuple[Deviation, ...]
    expectations: tuple[Expectation, ...]
    journal: str | None
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
        "verdict": verdict_word(run),
        **encode(run),
        "entries": encode(entries),
    }


def build_report(run: DrillRun, entries: Sequence[JournalEntry]) -> DrillReport:
    """The report of a run as the journal has it. Raises DrillError if the journal cannot be read."""
    state = RunState.of(run)
    return DrillReport(
        run_id=run.run_id,
        title=f"Drill {run.drill} on {run.stream}",
        verdict=verdict_word(run),
        sentence=sentence(run, state),
        timeline=timeline(run, state),
        rows=(*_run(run, state), *_experiment(state), *_output(state), *_end(state)),
        explanations=tuple(row for result in state.results for row in _explanations(result)),
        predictions=tuple(prediction for result in state.results for prediction in _predictions(result)),
        deviations=tuple(_deviations(state)),
        expectations=expectations_of(state.judgement),
        journal=state.journal,
        entries=tuple(entry for entry in entries if entry.kind != "traceback"),
    )


def markdown(report: DrillReport) -> str:
    """The report in Markdown, at most a screen."""
    lines = [f"# {report.title}: {report.verdict}", "", report.sentence, ""]
    if samples := [row for row in report.rows if row.sample]:
        lines += ["## Rows that are not as they should be", "", "| what | row |", "|---|---|"]
        lines += [f"| {row.name} | `{_cell(row.value)}` |" for row in samples] + [""]
    lines += ["## Timeline", ""]
    lines += ["| time (UTC) | from the fault | what happened |", "|---|---|---|"]
    lines += [f"| {clock(moment.at)} | {distance(moment)} | {_cell(moment.text)} |" for moment in report.timeline]
    lines += ["", "## Evidence", "", "| what | result |", "|---|---|"]
    evidence = (row for row in report.rows if not row.sample)
    lines += [f"| {row.name} | {f'`{_cell(row.value)}`' if row.literal else _cell(row.value)} |" for row in evidence]
    if report.explanations:
        lines += ["", "## How the recovery was predicted", ""]
        lines += [f"- **{row.name}**: {one_line(row.value)}" for row in report.explanations]
    return "\n".join(lines) + "\n"


def distance(moment: Moment) -> str:
    """`+31.9 s` from the fault, `-5.0 s` before it; empty if no fault landed."""
    return "" if moment.since is None else f"{round(moment.since, 1) + 0.0:+.1f} s"  # never -0.0


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")


def one_line(text: str) -> str:
    """`text` with single spaces for any white space."""
    return " ".join(text.split())


def show_time(at: float) -> str:
    """`2026-01-31 12:00:00 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _run(run: DrillRun, state: RunState) -> Iterator[ReportRow]:
    took = f", took {run.ended_at - run.started_at:.0f} s" if run.ended_at else ""
    unknown = "unknown: the drill says nothing about the stream"
    if run.reason:
        yield ReportRow("reason", run.reason)
    yield ReportRow("run", run.run_id, literal=True)
    yield ReportRow("started", show_time(run.started_at) + took)
    yield ReportRow("completed", run.status.value)
    yield ReportRow("deviated", {None: unknown, True: "yes", False: "no"}[run.deviated])
    if state.replays is not None:
        yield ReportRow("replay of", state.replays, literal=True)


def _experiment(state: RunState) -> Iterator[ReportRow]:
    yield from _target(state)
    yield ReportRow("steady state before", _steady(state.steady_before))
    if len(state.plan.order) > 1:
        yield ReportRow("sequence", _sequence(state))
    for result in state.results:
        yield from _of_fault(result, state.drill.recovery.target)
    yield ReportRow("steady state after", _steady(state.steady_after))


def _target(state: RunState) -> Iterator[ReportRow]:
    if state.drill.target is DrillTarget.FORK:
        yield ReportRow("fork", _fork(state.fork))
        return
    yield ReportRow("live stream", f"{state.drill.stream} itself{'' if state.live is not None else ', not touched'}")
    yield ReportRow("approval", _approval(state.approval))
    if state.preflight is not None:
        yield ReportRow("the same fault on a fork", state.preflight.last_on_fork)


def _approval(approval: Approval | None) -> str:
    if approval is None:
        return "nobody was asked"
    if approval.at is None:
        return f"nobody answered until {show_time(approval.until)}"
    word = "approved" if approval.granted else "not approved"
    return f"{word} by {approval.by} on {show_time(approval.at)}"


def _sequence(state: RunState) -> str:
    """`kill_driver, then sink_failing; drawn from the seed 7, after 0 and 2 batches`."""
    strikes = ((kind, len(list(same))) for kind, same in groupby(fault.kind for fault in state.fault_specs))
    faults = ", then ".join(kind if count == 1 else f"{kind} {count} times" for kind, count in strikes)
    if state.drill.seed is None:
        return f"{faults}; in the order of the file"
    pauses = format_list(map(str, state.plan.pauses))
    return f"{faults}; drawn from the seed {state.plan.seed}, each after further batches: {pauses}"


def _of_fault(result: FaultResult, target: float) -> Iterator[ReportRow]:
    yield ReportRow("fault", _fault(result))
    if result.refusal is not None:
        yield ReportRow("refusal", f"{'yes' if result.refusal.holds else 'no'}: {result.refusal.message}")
    yield _recovery(result, target)
    if result.predicted:
        yield ReportRow("recovery predicted", _predicted(result.predicted[-1], result.recovery))


def _fork(fork: ForkRecord | None) -> str:
    if fork is None:
        return "none was made"
    start = "with an empty checkpoint" if fork.batch is None else f"after batch {fork.batch}"
    return f"{fork.stream}, starts {start}, {fork.work} to read{fork.own_topic}"


def _fault(result: FaultResult) -> str:
    proof = result.landed
    if proof is not None:
        return f"{proof.kind}, landed at attempt {proof.attempts}: {proof.message}"
    return f"missed: {'; '.join(result.misses)}" if result.misses else "did not land"


def _recovery(result: FaultResult, target: float) -> ReportRow:
    recovery = result.recovery
    if recovery is None:
        return ReportRow("recovery", "not observed")
    if recovery.recovery_seconds is None or recovery.restart_seconds is None:
        return ReportRow("recovery", f"never came back: {recovery.message}")
    since = REMEDIATED if result.refusal else "the fault"
    launch = f"{recovery.restart_seconds:.1f} s after the launch" if recovery.restarted else "by the struck driver"
    value = (
        f"batch {recovery.first_new_batch} committed {recovery.recovery_seconds:.1f} s after {since} "
        f"(target {target:.1f} s), {launch}"
    )
    return ReportRow("recovery measured", value)


def _predicted(prediction: RecoveryPrediction, recovery: Recovery | None) -> str:
    """`26.7 s, measured 31.3 s: error -15 %`: both from the launch, or from the fault if the driver continues."""
    if prediction.seconds is None:
        return f"unknown: {'; '.join(prediction.missing)}"
    measured = recovery.restart_seconds if recovery is not None else None
    if not measured:
        return f"{prediction.seconds:.1f} s"
    since = "the launch" if recovery is not None and recovery.restarted else "the fault"
    error = 100 * (prediction.seconds / measured - 1)
    return f"{prediction.seconds:.1f} s from {since}, measured {measured:.1f} s: error {error:+.0f} %"


def _explanations(result: FaultResult) -> Iterator[ReportRow]:
    if not result.predicted:
        return
    *bounds, prediction = result.predicted
    terms = "".join(f"; {term.name}: {term.seconds:.1f} s ({term.source})" for term in prediction.terms)
    yield ReportRow("the prediction", f"{prediction.formula}{terms}")
    for bound in bounds:
        yield ReportRow("an upper bound of its replay", _bound(bound, result.recovery))


def _predictions(result: FaultResult) -> Iterator[Prediction]:
    recovery = result.recovery
    for prediction in result.predicted:
        yield Prediction(
            fault=result.spec.kind,
            formula=prediction.formula,
            since="the launch" if recovery is not None and recovery.restarted else "the fault",
            predicted=prediction.seconds,
            measured=recovery.restart_seconds if recovery is not None else None,
            terms=prediction.terms,
            missing=prediction.missing,
            note="" if prediction is result.predicted[-1] else BOUND_NOTE,
        )


def _bound(bound: RecoveryPrediction, recovery: Recovery | None) -> str:
    """The field's theorem, which answers another question than the prediction."""
    sources = "".join(f" ({term.source})" for term in bound.terms)
    return f"{bound.formula} = {_predicted(bound, recovery)}{sources}. {BOUND_NOTE}"


def _output(state: RunState) -> Iterator[ReportRow]:
    counts, judgement = state.reconciliation, state.judgement
    if state.drill.target is DrillTarget.PRODUCTION:
        yield from _audit(state)
        return
    if counts is None:
        yield ReportRow("output", "not verified")
        return
    yield ReportRow("output", _found(counts))
    if state.twin is not None:
        yield from _twin(state.twin)
    yield ReportRow("input records verified", f"{counts.records:,}")
    if (repeats := describe_repeats(counts)) is not None:
        yield ReportRow("delivery", repeats)
    if (of_input := describe_input(counts)) is not None:
        yield ReportRow("rows of the input", of_input)
    if (not_judged := describe_not_judged(counts)) is not None:
        yield ReportRow("columns", not_judged)
    yield from (ReportRow("problem", problem) for problem in counts.problems[:_SHOWN])
    if judgement is not None:
        yield ReportRow("judge", judgement.on("output"))
    yield from _samples(counts)


def _audit(state: RunState) -> Iterator[ReportRow]:
    if state.audit_before is not None:
        yield ReportRow("audit before", state.audit_before.sentence)
    yield ReportRow("audit after", "not audited" if state.audit is None else state.audit.sentence)
    if state.audit is not None:
        yield ReportRow("input records audited", f"{state.audit.records:,}")
    if state.judgement is not None:
        yield ReportRow("judge", state.judgement.on("books"))


def _twin(twin: TwinReport) -> Iterator[ReportRow]:
    yield ReportRow("twin", f"{describe_run(twin)}; {describe_key(twin)}")
    queries = twin.outcome.notes.get("queries")
    for name, found in queries.items() if isinstance(queries, Mapping) else ():
        yield ReportRow(f"query {name}", str(found))
    if (left_out := describe_left_out(twin)) is not None:
        yield ReportRow("columns of the twin", left_out)
    if twin.third is not None:
        yield ReportRow("third witness", twin.third)
    if not twin.alone:
        yield ReportRow("output, by the twin", _found(twin.outcome))
        yield from (ReportRow("problem, by the twin", problem) for problem in twin.outcome.problems[:_SHOWN])
        yield from _samples(twin.outcome, ", by the twin")


def _found(counts: Reconciliation) -> str:
    differences = ", ".join(f"{count:,} {kind}" for kind, count in counts.kinds.items())
    return f"{differences}: {counts.actual:,} rows, {counts.expected:,} expected"


def _samples(counts: Reconciliation, by: str = "") -> Iterator[ReportRow]:
    for kind, samples in counts.samples.items():
        name = f"{kind}{by}, for example"
        yield from (ReportRow(name, sample, literal=True, sample=True) for sample in samples[:_SHOWN])


def _deviations(state: RunState) -> Iterator[Deviation]:
    twin = state.twin
    own = "the twin" if twin is not None and twin.alone else "the job's own oracle"
    judged = {own: state.reconciliation, "the twin": None if twin is None or twin.alone else twin.outcome}
    oracles_by_row: dict[tuple[str, str], list[str]] = {}
    for oracle, counts in judged.items():
        for kind, samples in counts.samples.items() if counts is not None else ():
            for sample in samples:
                oracles_by_row.setdefault((kind, sample), []).append(oracle)
    for (kind, sample), oracles in oracles_by_row.items():
        yield Deviation(kind=kind, sample=parse_sample(sample), oracles=tuple(oracles))


def _end(state: RunState) -> Iterator[ReportRow]:
    yield from (ReportRow("not proven", limit) for limit in limits_of(state))
    yield ReportRow("healing", state.healing.message if state.healing else "not done")
    if state.journal is not None:
        yield ReportRow("journal", state.journal, literal=True)


def _steady(steady: SteadyState | None) -> str:
    if steady is None:
        return "not observed"
    return f"{'holds' if steady.holds else 'does not hold'}: {steady.message}"


def clock(at: float) -> str:
    """`12:00:00`, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
