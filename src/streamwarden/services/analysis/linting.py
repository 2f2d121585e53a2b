"""Gathers the facts for the rules of lint: the stream's file and job always; checkpoint, store and plan on request."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.drills.records.journal import DrillStatus
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import CheckpointMissing, ConfigError, StreamwardenError
from streamwarden.health.signals.series import batch_seconds, checkpoint_seconds
from streamwarden.lifecycle.location import overlap
from streamwarden.lifecycle.queries import Part, stream_parts
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.lint.checkpoint_reader import operators_of
from streamwarden.lint.facts import CheckpointSummary, DrillFacts, Facts, HistoryFacts, JobFacts, PlanFacts
from streamwarden.lint.finding import Finding
from streamwarden.lint.linter import lint
from streamwarden.lint.rules.contradiction import contradictions
from streamwarden.problems import ConfigFileError, Problem
from streamwarden.services.analysis.jobs import job_facts
from streamwarden.sinks import WRITERS
from streamwarden.sources.base import Source
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

LOOK_BACK: Final = 300
"""Batches of the history that are read."""


def lint_declared(
    spec: StreamSpec, drills: Iterable[DrillSpec] | None, streams: Iterable[StreamSpec] = ()
) -> tuple[Finding, ...]:
    """Lint facts from the stream's file, its job and the drills' files; never raises.

    Args:
        drills: all drills of the project; None if they were not read.
        streams: all streams of the project.
    """
    return lint(declared(spec, drills, streams))


def declared(
    spec: StreamSpec,
    drills: Iterable[DrillSpec] | None,
    streams: Iterable[StreamSpec] = (),
    plan: PlanFacts | None = None,
) -> Facts:
    """The facts in files that people write, with the plan of the job's query if it was built."""
    drill_facts = None if drills is None else tuple(_drill(drill) for drill in drills if drill.stream == spec.name)
    job = job_facts(spec)
    return Facts(
        spec=spec,
        conf=spark_conf(spec),
        writers=WRITERS,
        job=job,
        plan=plan,
        drills=drill_facts,
        readers=_readers(spec, job, streams),
    )


def _readers(spec: StreamSpec, job: JobFacts, streams: Iterable[StreamSpec]) -> tuple[str, ...]:
    """The other streams that read a folder of this one; looked up only for a stream that removes what it has read."""
    named = [spec.source.options, *(given.options for given in job.inputs)]
    if not any(option.lower() == "cleansource" for options in named for option in options):
        return ()
    own = {*spec.source.folders, *(given.path for given in job.inputs if given.path)}
    return tuple(
        other.name
        for other in streams
        if other.name != spec.name and any(overlap(mine, folder) for mine in own for folder in other.source.folders)
    )


def gathered(
    spec: StreamSpec,
    drills: Sequence[DrillSpec],
    store: Store | None,
    now: float,
    *,
    streams: Iterable[StreamSpec],
    plan: PlanFacts | None = None,
) -> Facts:
    """`declared`, with what the checkpoint and the store know. Raises StoreError.

    Args:
        store: None if there is none yet: nothing has run.
        plan: of the job's query, if it was built.
    """
    facts = declared(spec, drills, streams, plan)
    queries = _queries(spec, store, now)
    checkpoints = [_checkpoint(query, watermarked=facts.job.watermarked) for query in queries]
    # batches of several queries are not one history: each of them has another state and another trigger
    history = None if store is None or len(queries) > 1 else _history(spec, store, now)
    return replace(
        facts,
        checkpoint=_together([summary for summary, _ in checkpoints if summary is not None]),
        drills=facts.drills if store is None else tuple(_drilled(drill, spec, store) for drill in facts.drills or ()),
        history=history,
        pattern_names=_pattern_names(spec),
        problems=tuple(problem for _, problem in checkpoints if problem),
    )


def job_problem(spec: StreamSpec) -> ConfigError | None:
    """The error if a driver would refuse the job (not Python, or a script that contradicts its stream's file)."""
    job = job_facts(spec)
    if not job.parsed:
        return ConfigError(job.problem, expected="a Python file", where=job.path, next_step="correct the job")
    problems = [
        Problem(observed=problem.observed, allowed=problem.expected, next_step=problem.next_step, line=problem.line)
        for problem in contradictions(spec, job)
    ]
    return ConfigFileError(job.path, problems) if problems else None


def _queries(spec: StreamSpec, store: Store | None, now: float) -> list[StreamSpec]:
    """The stream, or each of its queries with its own checkpoint."""
    parts = stream_parts(spec, () if store is None else store.queries.of(spec.name), now)
    return [part.spec for part in parts if part.part is not Part.DRIVER]


def _pattern_names(spec: StreamSpec) -> Sequence[str]:
    """None of an input that cannot be listed: the probe of the waiting input reports that."""
    try:
        return spec.source.pattern_names(spec) if isinstance(spec.source, Source) else ()
    except (OSError, StreamwardenError):
        return ()


def _together(summaries: Sequence[CheckpointSummary]) -> CheckpointSummary | None:
    """The checkpoints of all queries of a script as one, because the job's text is one, too."""
    if len(summaries) < 2:
        return summaries[0] if summaries else None
    return CheckpointSummary(
        path=", ".join(facts.path for facts in summaries),
        committed=min((facts.committed for facts in summaries if facts.committed is not None), default=None),
        state_bytes=sum(facts.state_bytes for facts in summaries),
        operators=tuple(operator for facts in summaries for operator in facts.operators),
    )


def _drill(spec: DrillSpec) -> DrillFacts:
    rewind = spec.fork.rewind
    return DrillFacts(name=spec.name, schedule=spec.schedule, rewind=rewind if isinstance(rewind, int) else None)


def _drilled(drill: DrillFacts, spec: StreamSpec, store: Store) -> DrillFacts:
    runs = store.journals.recent(drill.name, spec.name)
    last = next((run for run in runs if run.status is DrillStatus.COMPLETED), None)
    return drill if last is None else replace(drill, last_at=last.ended_at or last.started_at, last_passed=last.passed)


def _checkpoint(spec: StreamSpec, *, watermarked: bool) -> tuple[CheckpointSummary | None, str]:
    """(its facts, why it could not be read). A checkpoint that is not there yet is neither."""
    try:
        report = read_checkpoint(checkpoint_of(spec))
    except CheckpointMissing:
        return None, ""
    except StreamwardenError as error:
        return None, str(error)
    summary = CheckpointSummary(
        path=report.path,
        committed=report.position.committed,
        state_bytes=report.state_bytes,
        operators=operators_of(report, named=watermarked),
    )
    return summary, ""


def _history(spec: StreamSpec, store: Store, now: float) -> HistoryFacts:
    window = store.batches.window(spec.name, LOOK_BACK)
    newest = window[-1].query_id if window else ""
    batches = [batch for batch in window if batch.query_id == newest]
    reports = [batch.progress for batch in batches if batch.progress is not None and batch.progress.has_run]
    done = [batch for batch in batches if batch.committed_at is not None or batch.progress in reports]
    rows = [sum(operator.rows_total for operator in report.operators) for report in reports]
    return HistoryFacts(
        now=now,
        batches=len(done),
        unreported=len(done) - len(reports),
        state_memory=sum(operator.memory_used_bytes for operator in reports[-1].operators) if reports else None,
        rows_first=rows[0] if rows else 0,
        rows_last=rows[-1] if rows else 0,
        rows_removed=sum(operator.rows_removed for report in reports for operator in report.operators),
        batch=statistics.median(batch_seconds(batches)) if reports else None,
        checkpoint=statistics.median(checkpoint_seconds(spec, reports)) if reports else None,
    )
