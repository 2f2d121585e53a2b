"""Versions kept: the batches to which the stream can go back, against those that Spark is told to keep."""

from collections.abc import Sequence
from typing import Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import COMMITS, OFFSETS, batch_ids, list_or_empty
from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import DeclaredInput, Probed, Reading, StateInstance, Window
from streamwarden.lifecycle.settings import RETAIN, number
from streamwarden.units import format_count

_SLACK: Final = 2
"""Versions by which the logs and the state may differ while Spark purges them."""


def _logged(checkpoint: Location, declared: DeclaredInput) -> frozenset[int]:
    planned, committed = (batch_ids(list_or_empty(checkpoint / log)) for log in (OFFSETS, COMMITS))
    return frozenset(planned) & frozenset(committed)


LOGGED: Final = Reading(_logged)
"""The batches that both logs have."""


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """The share of the promised batches that can still be opened."""
    logged, limits_in_force = window[LOGGED], thresholds.of(CHECK.name)
    committed = window.log.committed if window.log is not None else None
    if not logged or window.state is None or committed is None:
        return CHECK.verdict(window, Status.UNKNOWN, "no batch is committed, or the checkpoint was not read")
    by_logs, by_state = _in_logs(logged), _in_state(window.state, committed)
    # Each is counted from the newest batch of its own listing: the stream commits and purges meanwhile.
    kept = max(0, min(max(logged) + 1 - by_logs, committed + 1 - by_state))
    promised, oldest = min(committed + 1, int(number(window.spec.spark.conf, RETAIN))), max(by_logs, by_state)
    value = round(min(1.0, kept / promised), 6) if promised else 1.0
    evidence: dict[str, object] = {"oldest": oldest, "newest": committed, "kept": kept, "promised": promised}
    back = f"the stream can go back {format_count(kept, 'batch')} of the {promised:,} that `minBatchesToRetain` keeps"
    if kept and kept < promised and not _is_gone(window, logged, oldest):
        reason = f"{back}; their number grows with each batch, so nothing that was kept is missing"
        return CHECK.verdict(window, Status.OK, reason, value, {**evidence, "filling": True})
    reason = f"{back} ({CHECK.limits_text(limits_in_force)})"
    return CHECK.verdict(window, CHECK.grade(value, limits_in_force), reason, value, evidence)


def _in_logs(logged: frozenset[int]) -> int:
    """The oldest batch from which on both logs have each one."""
    oldest = max(logged)
    while oldest - 1 in logged:
        oldest -= 1
    return oldest


def _in_state(stores: Sequence[StateInstance], committed: int) -> int:
    """The oldest batch from which on the state after each one can be loaded; `committed` + 1: there is none.

    The state after batch N is version N + 1. The stores were listed after that commit, so that each must have it.
    """
    needed = committed + 1
    since = (
        needed if store.kept_since is None or (store.version or 0) < needed else store.kept_since - 1
        for store in stores
    )
    return max(since, default=0)


def _is_gone(window: Window, logged: frozenset[int], oldest: int) -> bool:
    """Whether older batches were kept and are not any more; False: the stream is young, or keeps more than before.

    Then the oldest batch stays, and the logs begin with it, too.
    """
    if min(logged) < oldest - _SLACK:
        return True
    before = window.previous.get(CHECK.name)
    if before is None or before.evidence.get("oldest") == oldest:
        return before is not None and before.evidence.get("filling") is None and before.status is not Status.OK
    return isinstance(before.evidence.get("oldest"), int)


CHECK = Check(
    name="versions_kept",
    title="Versions kept",
    unit=ValueUnit.SHARE,
    target="all batches that `minBatchesToRetain` promises",
    thresholds=limits(0.9, 0.1, ValueUnit.SHARE, "batches that can be opened / batches that Spark is told to keep"),
    more_is_worse=False,
    judge=check,
    probes=frozenset({Probed.STATE}),
    readings=(LOGGED,),
    rests=True,
    reads=(
        "The names in `offsets/` and `commits/`, and those of the files under `state/`: a batch counts if both logs "
        "have it, each partition of each operator can load the state after it, and the same holds for all later ones. "
        "Their number is compared with `spark.sql.streaming.minBatchesToRetain` of the stream's file, by default 100, "
        "or with all batches of a younger stream. While the number grows, after the setting was raised, it is OK. To "
        "these batches `state show --batch`, a savepoint of an older batch, an audit and a drill that restores a "
        "savepoint can go back. The content of the files is not read."
    ),
    unknown="No batch is committed, or the storage of the checkpoint does not answer.",
    advice=(
        "Something removed files that Spark was told to keep: run `streamwarden inspect` on the stream, and look for "
        "what else deletes in the checkpoint (lifecycle rules of a bucket, clean-up jobs). A script that sets "
        "`spark.sql.streaming.minBatchesToRetain` itself should leave that to `spark.conf` of the stream's file. To go "
        "back further, raise it there."
    ),
    source="Design of Streamwarden: a promise to go back is worth what is on the disk.",
)
