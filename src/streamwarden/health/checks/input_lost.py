"""Input lost: records that were gone before any batch read them."""

from __future__ import annotations

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window

RECREATED = (
    "If the topic was deleted and recreated, give the stream a new checkpoint path and a new place for its output "
    "(`checkpoint`, and `sink.path` or `sink.table`) in one change, then start it. A new checkpoint alone is no way "
    "out: its batches begin at 0 again. A folder's manifest skips the batch numbers that it has, so their rows are "
    "lost, and a table's ledger refuses another query."
)
"""What to do about a topic that is not the one which the checkpoint has read: nothing of the old checkpoint fits it."""

KEEP_LONGER = (
    "If the retention passed the stream, raise it (retention.ms, retention.bytes), and give the stream cores. The "
    'driver ends at these offsets. To go on without the records, set failOnDataLoss: "false" in source.options for one '
    "start."
)


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How many records of the topic can never be read."""
    limits_in_force = thresholds.of(CHECK.name)
    if window.log is None or window.log.planned is None:
        return CHECK.verdict(window, Status.UNKNOWN, "no batch is known to have been planned", evidence=_known(window))
    source = window.spec.source
    if not source.DECLARED:
        return CHECK.verdict(
            window, Status.UNKNOWN, "the job reads a source of its own, which nobody can be asked about"
        )
    if not source.OFFSETS:
        return CHECK.verdict(window, Status.OK, "the source is no topic: no retention can pass the stream", 0.0)
    waiting = window.waiting
    if waiting is None:
        told = "the broker did not tell which offsets it keeps"
        return CHECK.verdict(window, Status.UNKNOWN, told, evidence=_known(window))
    known = _kept(window, window.log.query_id)
    found = waiting.topic_id or known.get("found_id")
    read = known.get("topic_id") or found
    lost = sum(waiting.lost.values())
    evidence: dict[str, object] = {
        "lost_by_partition": dict(waiting.lost),
        "made_anew": list(waiting.rewound),
        "topic": _topic(window),
        "query_id": window.log.query_id,
        "topic_id": read,
        "found_id": found,
    }
    if waiting.rewound:
        reason = f"the topic was made anew: {', '.join(waiting.rewound)} hold less than was read already"
        return CHECK.verdict(window, Status.CRITICAL, reason, float(lost), evidence, RECREATED)
    if found != read:
        reason = (
            f"the topic was made anew: its id is {found}, and {read} is that of the topic which this "
            "checkpoint has read. It has grown beyond the stream's offsets: what lies before them is not read"
        )
        return CHECK.verdict(window, Status.CRITICAL, reason, float(lost), evidence, RECREATED)
    if lost:
        reason = f"{lost:,} records went before any batch read them ({', '.join(waiting.lost)})"
        status = CHECK.grade(lost, limits_in_force)
        return CHECK.verdict(window, status, reason, float(lost), evidence, KEEP_LONGER)
    return CHECK.verdict(window, Status.OK, "every record that is not read yet is kept", 0.0, evidence)


def _known(window: Window) -> dict[str, object]:
    """What earlier looks told of the topic: `topic_id` is that of the one which was read, `found_id` that of the one
    which is there. Goes from verdict to verdict: a look that was told less forgets nothing."""
    before = window.previous.get(CHECK.name)
    names = ("topic", "query_id", "topic_id", "found_id")
    return {} if before is None else {name: before.evidence[name] for name in names if name in before.evidence}


def _kept(window: Window, query_id: str | None) -> dict[str, object]:
    """`_known`, if it is of this topic and of the query that the checkpoint has now; else nothing."""
    known = _known(window)
    return known if (known.get("topic"), known.get("query_id")) == (_topic(window), query_id) else {}


def _topic(window: Window) -> str:
    """A connection of another name may be to another cluster, whose topic is another one by intent."""
    return f"{window.spec.source.topic} at the connection {window.spec.source.connection}"


CHECK = Check(
    name="input_lost",
    title="Input lost",
    unit=ValueUnit.ROWS,
    target="none",
    thresholds=limits(1, 1, ValueUnit.ROWS, "records that were gone before any batch read them"),
    judge=check,
    reads=(
        "The oldest and the newest offset of each partition, asked of the broker, beside the `offsets/` of the newest "
        "committed batch. One before the oldest: the retention passed the stream. One beyond the newest, committed or "
        "planned: the topic was made anew, which is CRITICAL by itself. So is a topic whose id is not the one that the "
        "first look at this checkpoint found (brokers older than Kafka 2.8 have none): it may have grown beyond the "
        "stream's offsets, and Spark reads on from there. Of a source that is no topic nothing is read."
    ),
    unknown="No batch was planned yet, the broker does not answer, or the job is a script with a source of its own.",
    advice=f"{KEEP_LONGER} {RECREATED}",
    source="Design of Streamwarden: input that is gone cannot come out, so no output is right any more.",
)
