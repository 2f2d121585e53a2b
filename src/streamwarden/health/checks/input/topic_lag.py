"""Topic lag: whether the stream has caught up with each partition, follows, stalls, reads again or falls behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import PROGRESS_STALLED, STANDING_STILL
from streamwarden.health.checks.input.input_lost import RECREATED
from streamwarden.health.signals.freshness import RECENT_BATCHES, one_batch
from streamwarden.health.signals.series import FRESH
from streamwarden.health.signals.stopped import ended_well, is_stopped, running_since
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import PartitionLag, Probed, Window
from streamwarden.units import format_count, format_duration

APART = 30.0
"""Seconds between two measurements that count: from a shell the check may run at any time, even between two batches."""
GROWN = 5
"""Measurements in a row that must each have found more than the one before: between two of them any lag may grow."""
NAMED = 3
"""Partitions that the reason names; the evidence names all."""


class _Rule(IntEnum):
    """The state of a partition, in the order of evaluation. If two are equally bad, the larger number is reported."""

    CAUGHT_UP = 0
    STALLED = 5
    REWINDING = 4
    NEVER_CATCHING_UP = 3
    STANDING_STILL = 2
    FOLLOWING = 1

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class _Course:
    """One partition, from measurement to measurement; it goes from verdict to verdict in the evidence.

    Args:
        offset: behind the newest committed batch; highest: the highest that it ever was.
        behind: records that waited for their commit.
        still_since: the first of the measurements that found records waiting and the offset where it is, Unix seconds.
        growing_since: the first of those that each found more than the one before; grown: how many did.
    """

    offset: int
    highest: int
    behind: int
    still_since: float
    growing_since: float
    grown: int = 0

    @classmethod
    def begun(cls, lag: PartitionLag, at: float) -> _Course:
        return cls(lag.committed, lag.committed, lag.behind, at, at)

    def after(self, lag: PartitionLag, at: float) -> _Course:
        moved = lag.committed != self.offset
        growing = lag.behind > self.behind > 0 and lag.committed >= self.offset
        return _Course(
            offset=lag.committed,
            highest=max(self.highest, lag.committed),
            behind=lag.behind,
            still_since=at if moved or not self.behind else self.still_since,
            growing_since=self.growing_since if growing else at,
            grown=self.grown + 1 if growing else 0,
        )


@dataclass(frozen=True, slots=True)
class _History:
    """All partitions up to a measurement: the newest but one if they follow each other too closely."""

    query_id: str
    at: float
    measurements: int
    courses: Mapping[str, _Course]

    def evidence(self) -> dict[str, object]:
        courses = {name: asdict(course) for name, course in self.courses.items()}
        return {"query_id": self.query_id, "at": self.at, "measurements": self.measurements, "courses": courses}


@dataclass(frozen=True, slots=True)
class _Measure:
    """Parameters of the measurement.

    Args:
        started: since when the stream is meant to run, Unix seconds.
        one_batch: seconds for which an offset does not move by design.
    """

    now: float
    started: float
    one_batch: float
    limits: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Finding:
    """The result for one partition. `seconds`: how long its offset has not moved, or its lag has grown."""

    name: str
    rule: _Rule
    status: Status
    seconds: float
    behind: int
    words: str
    advice: str | None = None


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """The worst finding of the topic's partitions."""
    if window.log is None or window.log.planned is None:
        return CHECK.verdict(window, Status.UNKNOWN, "no batch was planned yet")
    source = window.spec.source
    if not source.DECLARED:
        reason = "the job opens its source itself, so the check cannot query it"
        return CHECK.verdict(window, Status.UNKNOWN, reason)
    if not source.OFFSETS:
        return CHECK.not_applicable(window, "the source is not a topic", 0.0)
    before = _remembered(window)
    lags = window.waiting.partitions if window.waiting is not None else {}
    if not lags:
        evidence = before.evidence() if before is not None else None
        return CHECK.verdict(window, Status.UNKNOWN, "the broker did not report its offsets", None, evidence)
    now = _measured(window, lags, before)
    kept = before if before is not None and now.at - before.at < APART else now
    by = _Measure(window.now, running_since(window), one_batch(window, thresholds), thresholds.of(CHECK.name))
    findings = [_finding(name, lag, now.courses[name], by) for name, lag in lags.items()]
    evidence = {
        **kept.evidence(),
        "partitions": {finding.name: f"{finding.rule.words}: {finding.words}" for finding in findings},
    }
    return _verdict(window, findings, now.measurements, by, evidence)


def _verdict(
    window: Window,
    findings: list[_Finding],
    measurements: int,
    by: _Measure,
    evidence: Mapping[str, object],
) -> Verdict:
    findings = sorted(
        findings, key=lambda finding: (finding.status.rank, finding.rule, finding.seconds, finding.behind), reverse=True
    )
    worst = findings[0]
    value = max(finding.seconds for finding in findings)
    total = sum(finding.behind for finding in findings)
    if worst.rule is _Rule.CAUGHT_UP:
        return CHECK.verdict(window, Status.OK, "caught up: every record is read and committed", 0.0, evidence)
    alike = [finding for finding in findings if finding.rule is worst.rule]
    some = "; ".join(f"{finding.name}: {finding.words}" for finding in alike[:NAMED])
    more = f"; and {len(alike) - NAMED} more" if len(alike) > NAMED else ""
    reason = f"{worst.rule.words}, {len(alike)} of {len(findings)} partitions: {some}{more}"
    if _is_stopped(window):
        reason = f"not running; waiting until the stream is started: {format_count(total, 'record')}"
        return CHECK.verdict(window, Status.OK, reason, 0.0, evidence)
    if worst.status is Status.OK and measurements < 2:
        reason = f"measured once: the next measurement shows whether the offsets advance ({some}{more})"
        return CHECK.verdict(window, Status.UNKNOWN, reason, None, evidence)
    reason = f"{reason} ({CHECK.limits_text(by.limits)})"
    return CHECK.verdict(window, worst.status, reason, value, evidence, worst.advice)


def _finding(name: str, lag: PartitionLag, course: _Course, by: _Measure) -> _Finding:
    """The first rule that is true of the partition."""

    def finding(rule: _Rule, status: Status, words: str, seconds: float = 0.0, advice: str | None = None) -> _Finding:
        return _Finding(name, rule, status, round(seconds, 6), lag.behind, words, advice)

    waits = f"{lag.behind:,} records wait"
    if lag.since is not None:
        waits += f", the oldest for {format_duration(max(0.0, by.now - lag.since))}"
    if lag.behind == 0 and lag.last >= lag.committed:
        return finding(_Rule.CAUGHT_UP, Status.OK, "no record waits")
    stood = max(0.0, by.now - max(course.still_since, by.started) - by.one_batch) if lag.behind else 0.0
    status = CHECK.grade(stood, by.limits)
    stands = (
        f"{waits}, and the committed offset {lag.committed:,} has not moved for {format_duration(stood + by.one_batch)}"
    )
    if status is not Status.OK:
        return finding(_Rule.STALLED, status, stands, stood)
    if lag.last < lag.committed:
        words = f"it ends at {lag.last:,}, before the committed offset {lag.committed:,}: the topic was recreated"
        return finding(_Rule.REWINDING, Status.CRITICAL, words, advice=RECREATED)
    if course.highest > lag.committed:
        words = f"the committed offset went back from {course.highest:,} to {lag.committed:,}; {waits}"
        return finding(_Rule.REWINDING, Status.WARNING, words, stood)
    # between two batches of a slow trigger a lag only grows
    grew = max(0.0, by.now - max(course.growing_since, by.started) - by.one_batch) if course.grown >= GROWN else 0.0
    status = CHECK.grade(grew, by.limits)
    if status is not Status.OK:
        words = f"{waits}, more at each of {course.grown} measurements in {format_duration(grew)}"
        return finding(_Rule.NEVER_CATCHING_UP, status, words, grew)
    if stood > FRESH:
        return finding(_Rule.STANDING_STILL, Status.UNKNOWN, stands, stood)
    return finding(_Rule.FOLLOWING, Status.OK, waits, max(stood, grew))


def _is_stopped(window: Window) -> bool:
    """The stream was stopped deliberately, so no consumer is expected."""
    return is_stopped(window) or (bool(window.drivers) and ended_well(window.drivers[-1]))


def _measured(window: Window, seen: Mapping[str, PartitionLag], before: _History | None) -> _History:
    query = (window.log.query_id if window.log is not None else None) or ""
    previous = before.courses if before is not None else {}
    courses = {
        name: previous[name].after(lag, window.now) if name in previous else _Course.begun(lag, window.now)
        for name, lag in seen.items()
    }
    return _History(query, window.now, 1 + (before.measurements if before is not None else 0), courses)


def _remembered(window: Window) -> _History | None:
    """The history in the verdict before, if it is of this query: a new checkpoint is a new baseline."""
    verdict = window.previous.get(CHECK.name)
    query = (window.log.query_id if window.log is not None else None) or ""
    if verdict is None or verdict.evidence.get("query_id") != query:
        return None
    try:
        kept = verdict.evidence
        courses = {name: _Course(**course) for name, course in kept["courses"].items()}  # type: ignore[attr-defined]
        return _History(query, kept["at"], kept["measurements"], courses)  # type: ignore[arg-type]
    except (KeyError, TypeError, AttributeError):  # written by another version of this check
        return None


CHECK = Check(
    name="topic_lag",
    title="Topic lag",
    unit=ValueUnit.SECONDS,
    target="every partition's offset advances while records wait",
    thresholds=limits(600.0, 3600.0, ValueUnit.SECONDS, "time for which an offset did not move, or a lag only grew"),
    judge=check,
    probes=frozenset({Probed.WAITING}),
    consequence_of=(*STANDING_STILL, PROGRESS_STALLED),
    reads=(
        "For each partition, the offset after the newest committed batch (from `offsets/` and `commits/` of the "
        "checkpoint, because Spark commits no offsets of a consumer group), the broker's oldest and newest offsets, "
        "and the timestamp of the oldest record between them. The result passes from verdict to verdict in the "
        f"evidence, with at most one measurement in {APART:.0f} s. The first rule that is true counts. (1) Caught up: "
        "no record waits; OK. (2) Stalled: records wait and the committed offset has not moved for longer than one "
        f"batch (the longer of trigger and p95 of the last {RECENT_BATCHES} batches, which is subtracted); time "
        "before the last requested start does not count. (3) Rewinding: the committed offset is below its highest "
        "value, so records are read again; always a WARNING. If the partition ends before the committed offset, the "
        "topic was recreated: CRITICAL. (4) Never catching up: the offset advances, and the lag was larger at each "
        f"measurement than at the one before, at least {GROWN} times; one batch is subtracted here too. Otherwise the "
        "stream follows the partition; OK. If the offset has not moved for two minutes more than a batch, the "
        "partition is standing still, and until `warning` it is UNKNOWN whether that is a stall. The value is the "
        "longest time of (2) or (4). A stream that was stopped on request, or should be stopped, is OK. For a source "
        "that is not a topic the check reads nothing."
    ),
    unknown=(
        "No batch was planned yet; the broker does not answer; records wait and there is only one measurement, or an "
        "offset does not move; or the job is a script that opens its source itself."
    ),
    advice=(
        "Stalled: see `streamwarden status` and the end of driver.log; the driver may be down, a batch may hang, or "
        "a partition may have no leader. Never catching up: raise source.max_offsets_per_trigger, give the stream "
        "more cores, or add partitions. Rewinding: a restored checkpoint reads records again, which ends by itself. "
        f"{RECREATED}"
    ),
    source="The rules are those of Burrow's evaluation of consumer lag, the measurements are the checkpoint's.",
)
