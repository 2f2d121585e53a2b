"""Input lost: records that were deleted before any batch read them."""

from collections.abc import Mapping

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window
from streamwarden.lifecycle.failures.causes import TABLE_INPUT_GONE, TOPIC_RECREATED, WITHOUT_RECORDS
from streamwarden.units import format_count

_NAMED = 3
"""Commits or files that a verdict names."""

RECREATED = f"If the topic was deleted and recreated, {TOPIC_RECREATED.next_step}."
"""What to do about a topic that is not the one that the checkpoint has read: its offsets do not fit the new topic."""

KEEP_LONGER = (
    "If the topic's retention deleted records before the stream read them, raise it (retention.ms, retention.bytes) "
    "and give the stream more cores. The driver ends at these offsets. To continue without the records, "
    f"{WITHOUT_RECORDS}."
)


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How many records of the topic can never be read."""
    limits_in_force = thresholds.of(CHECK.name)
    if window.log is None or window.log.planned is None:
        return CHECK.verdict(window, Status.UNKNOWN, "no batch was planned yet", evidence=_known(window))
    source = window.spec.source
    if not source.DECLARED:
        return CHECK.verdict(window, Status.UNKNOWN, "the job opens its source itself, so the check cannot query it")
    if source.TABLE:
        return _of_table(window, limits_in_force)
    if not source.OFFSETS:
        return CHECK.not_applicable(window, "no retention deletes the input of such a source", 0.0)
    waiting = window.waiting
    if waiting is None:
        reason = "the broker did not report which offsets it keeps"
        return CHECK.verdict(window, Status.UNKNOWN, reason, evidence=_known(window))
    memory = _kept(window, window.log.query_id)
    existing_id = waiting.topic_id or memory.get("found_id")
    read = memory.get("topic_id") or existing_id
    lost = sum(waiting.lost.values())
    evidence: dict[str, object] = {
        "lost_by_partition": dict(waiting.lost),
        "made_anew": list(waiting.rewound),
        "topic": _topic(window),
        "query_id": window.log.query_id,
        "topic_id": read,
        "found_id": existing_id,
    }
    if waiting.rewound:
        reason = f"the topic was recreated: {', '.join(waiting.rewound)} hold less than was already read"
        return CHECK.verdict(window, Status.CRITICAL, reason, float(lost), evidence, RECREATED)
    if existing_id != read:
        reason = (
            f"the topic was recreated: its id is {existing_id}, and the topic that this checkpoint has read had the id "
            f"{read}. The new topic has grown beyond the stream's offsets, and the records before them are not read"
        )
        return CHECK.verdict(window, Status.CRITICAL, reason, float(lost), evidence, RECREATED)
    if lost:
        reason = f"{format_count(lost, 'record')} deleted before any batch read them ({', '.join(waiting.lost)})"
        status = CHECK.grade(lost, limits_in_force)
        return CHECK.verdict(window, status, reason, float(lost), evidence, KEEP_LONGER)
    return CHECK.verdict(window, Status.OK, "the topic still has every record that was not read yet", 0.0, evidence)


def _of_table(window: Window, limits_in_force: Mapping[str, float]) -> Verdict:
    """What the retention of the table's log, or of its old files, has taken of what waits."""
    if window.waiting is None:
        return CHECK.verdict(window, Status.UNKNOWN, "the log of the table could not be read")
    lost = sum(window.waiting.lost.values())
    if not lost:
        reason = "the table still has every commit and data file that was not read yet"
        return CHECK.verdict(window, Status.OK, reason, 0.0)
    names = list(window.waiting.lost)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    reason = f"the table no longer has {', '.join(names[:_NAMED])}{more}, which no batch has read"
    evidence: dict[str, object] = {"lost": names}
    status = CHECK.grade(lost, limits_in_force)
    return CHECK.verdict(window, status, reason, float(lost), evidence, f"{TABLE_INPUT_GONE.next_step}.")


def _known(window: Window) -> dict[str, object]:
    """Memory of earlier evaluations: `topic_id` is the id of the topic that was read, `found_id` that of the topic
    that exists now. It passes from verdict to verdict, so an evaluation that learns less forgets nothing."""
    before = window.previous.get(CHECK.name)
    names = ("topic", "query_id", "topic_id", "found_id")
    return {} if before is None else {name: before.evidence[name] for name in names if name in before.evidence}


def _kept(window: Window, query_id: str | None) -> dict[str, object]:
    """`_known`, if it belongs to this topic and to the checkpoint's current query; otherwise empty."""
    memory = _known(window)
    return memory if (memory.get("topic"), memory.get("query_id")) == (_topic(window), query_id) else {}


def _topic(window: Window) -> str:
    """The topic and its connection: another connection may lead to another cluster with a topic of the same name."""
    return f"{window.spec.source.topic} at the connection {window.spec.source.connection}"


CHECK = Check(
    name="input_lost",
    title="Input lost",
    unit=ValueUnit.ROWS,
    target="none",
    thresholds=limits(1, 1, ValueUnit.ROWS, "records that were deleted before any batch read them"),
    judge=check,
    probes=frozenset({Probed.WAITING}),
    reads=(
        "The oldest and the newest offset of each partition, as the broker reports them, compared with the `offsets/` "
        "of the newest committed batch. An offset before the oldest means that the retention deleted records before "
        "the stream read them. An offset beyond the newest, committed or planned, means that the topic was recreated, "
        "which is always CRITICAL. So is a topic whose id differs from the one that the first evaluation of this "
        "checkpoint found (brokers older than Kafka 2.8 have no id): it may have grown beyond the stream's offsets, "
        "and Spark reads on from there. Of a table: the commits of its log after the newest planned batch, and "
        "whether the data files that later commits removed are still there, as VACUUM and the log's retention delete "
        "them. For a source of another kind the check reads nothing."
    ),
    unknown="No batch was planned yet, the broker does not answer, or the job is a script that opens its source "
    "itself.",
    advice=f"{KEEP_LONGER} {RECREATED}",
    source="Design of Streamwarden: output that lacks deleted input is never right.",
)
