"""SW103: snapshots too seldom, or batches so small that the checkpoint is most of them."""

from collections.abc import Iterable
from typing import Final

from streamwarden.checkpoint.diagnosis.loading import MOST_REPLAYED
from streamwarden.lifecycle.settings import DELTAS, MAINTENANCE, STATE_STORE, number, seconds
from streamwarden.lint.facts import Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule
from streamwarden.units import format_duration

MOST_MAINTENANCE: Final = 60.0
"""Seconds, Spark's default: a stream that crashes more often than that never uploads a snapshot, and each of its
restarts replays more than the one before."""

MOST_SHARE: Final = 0.5
"""Of a batch that may be its checkpoint."""


def judge(facts: Facts) -> Iterable[Finding]:
    """Only where there is state to replay."""
    if facts.operators() == ():
        return
    where = f"{facts.file}: spark.conf"
    deltas = number(facts.conf, DELTAS)
    limit = number(facts.conf, f"{STATE_STORE}.autoSnapshotRepair.maxChangeFileReplay", MOST_REPLAYED)
    if deltas > limit:
        observed = f"a snapshot after {deltas:.0f} batches: Spark repairs a damaged one over at most {limit:.0f}"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where)
    interval = seconds(facts.conf, MAINTENANCE)
    if interval > MOST_MAINTENANCE:
        observed = (
            f"snapshots are uploaded every {format_duration(interval)}, longer than {format_duration(MOST_MAINTENANCE)}"
        )
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where)
    trigger = facts.spec.trigger
    if not trigger.available_now and not trigger.interval:
        observed = "no trigger interval: a batch, and a checkpoint, for each handful of rows"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, f"{facts.file}: trigger")
    history = facts.history
    if history is not None and history.batch and history.checkpoint is not None:
        share = history.checkpoint / history.batch
        if share > MOST_SHARE:
            observed = (
                f"the checkpoint is {share:.0%} of a batch ({format_duration(history.checkpoint)} of "
                f"{format_duration(history.batch)}, medians)"
            )
            yield RULE.finding(facts, observed, FactOrigin.HISTORY, f"the newest {history.batches} batches")


RULE = Rule(
    id="SW103",
    title="Checkpoint interval",
    severity=Severity.WARNING,
    reason=(
        "Every batch commits; what can be chosen is how often a whole snapshot is made and uploaded, and how many rows "
        "share one commit. Too seldom, and a restart replays for minutes; too often, and batches are mostly checkpoint."
    ),
    reads=(
        f"`minDeltasForSnapshot` (at most {MOST_REPLAYED}, beyond which Spark does not repair a snapshot), "
        f"`maintenanceInterval` (at most {MOST_MAINTENANCE:.0f} s), `trigger`; from the history, the share of the "
        f"checkpoint in a batch (at most {MOST_SHARE:.0%})."
    ),
    remedy=(
        "Take the numbers of `streamwarden advise STREAM`; without a history, leave both settings as the "
        "runner sets them."
    ),
    judge=judge,
)
