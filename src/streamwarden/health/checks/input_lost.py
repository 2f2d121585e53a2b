"""Input lost: records that were gone before any batch read them."""

from __future__ import annotations

from streamwarden.health.check import Check, Thresholds, Unit, limits
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.stream import SourceKind


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How many records of the topic can never be read."""
    limits_in_force = thresholds.of(CHECK.name)
    if window.log is None or window.log.planned is None:
        return CHECK.verdict(window, Status.UNKNOWN, "no batch is known to have been planned")
    kind = window.spec.source.kind
    if kind is SourceKind.SCRIPT:
        return CHECK.verdict(
            window, Status.UNKNOWN, "the job reads a source of its own, which nobody can be asked about"
        )
    if kind is not SourceKind.KAFKA:
        return CHECK.verdict(window, Status.OK, "the source is no topic: no retention can pass the stream", 0.0)
    waiting = window.waiting
    if waiting is None:
        return CHECK.verdict(window, Status.UNKNOWN, "the broker did not tell which offsets it keeps")
    lost = sum(waiting.lost.values())
    evidence: dict[str, object] = {"lost_by_partition": dict(waiting.lost), "made_anew": list(waiting.rewound)}
    if waiting.rewound:
        reason = f"the topic was made anew: {', '.join(waiting.rewound)} hold less than was read already"
        return CHECK.verdict(window, Status.CRITICAL, reason, float(lost), evidence)
    if lost:
        reason = f"{lost:,} records went before any batch read them ({', '.join(waiting.lost)})"
        return CHECK.verdict(window, CHECK.grade(lost, limits_in_force), reason, float(lost), evidence)
    return CHECK.verdict(window, Status.OK, "every record that is not read yet is kept", 0.0, evidence)


CHECK = Check(
    name="input_lost",
    title="Input lost",
    unit=Unit.ROWS,
    target="none",
    thresholds=limits(1, 1, Unit.ROWS, "records that were gone before any batch read them"),
    judge=check,
    reads=(
        "The oldest and the newest offset of each partition, asked of the broker, beside the `offsets/` of the newest "
        "committed batch. One before the oldest: the retention passed the stream. One beyond the newest, committed or "
        "planned: the topic was made anew, which is CRITICAL by itself. Of a source that is no topic nothing is read."
    ),
    unknown="No batch was planned yet, the broker does not answer, or the job is a script with a source of its own.",
    advice=(
        "Raise the topic's retention (retention.ms, retention.bytes), and give the stream cores. The driver ends at "
        'these offsets. To go on without the records: failOnDataLoss: "false" in source.options for one start; after a '
        "topic was made anew, a new checkpoint path and a new place for the output."
    ),
    source="Design of Streamwarden: input that is gone cannot come out, so no output is right any more.",
)
