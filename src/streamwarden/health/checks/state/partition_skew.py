"""Partition skew: one partition holds much more state than the others."""

import statistics

from streamwarden.health.check import Check, Threshold, Thresholds, ValueUnit, limits
from streamwarden.health.signals.partitions import partition_bytes
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window
from streamwarden.units import MB, format_size


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How much more state the fullest partition holds than the others."""
    limits_in_force = thresholds.of(CHECK.name)
    sizes = partition_bytes(window)
    if not sizes:
        return CHECK.verdict(window, Status.UNKNOWN, "the checkpoint's bytes for each partition could not be read")
    value, operator, partition = 1.0, 0, 0
    for index in {operator for operator, _ in sizes}:
        partitions = {part: size for (op, part), size in sizes.items() if op == index}
        fullest = max(partitions, key=lambda part: partitions[part])
        others = [size for part, size in partitions.items() if part != fullest]
        if not others or partitions[fullest] < limits_in_force["least_bytes"]:
            continue
        ratio = partitions[fullest] / max(1.0, statistics.median(others))
        if ratio > value:
            value, operator, partition = round(ratio, 6), index, fullest
    fullest_size = sizes.get((operator, partition), 0)
    reason = (
        f"the fullest partition ({partition} of operator {operator}, {format_size(fullest_size)}) holds {value:.3g} x "
        f"the median of the others ({CHECK.limits_text(limits_in_force)})"
        if value > 1
        else "no partition holds significantly more state than the others"
    )
    evidence: dict[str, object] = {"operator": operator, "partition": partition, "partitions": len(sizes)}
    return CHECK.verdict(window, CHECK.grade(value, limits_in_force), reason, value, evidence)


CHECK = Check(
    name="partition_skew",
    title="Partition skew",
    unit=ValueUnit.TIMES,
    target="< 3 x the median of the other partitions",
    thresholds=(
        *limits(3.0, 10.0, ValueUnit.TIMES, "bytes of the fullest partition, in medians of the others"),
        Threshold("least_bytes", 64 * MB, ValueUnit.BYTES, "size below which a partition's skew is ignored"),
    ),
    judge=check,
    probes=frozenset({Probed.STATE}),
    raise_after=1,
    rests=True,
    reads="Bytes under `state/OPERATOR/PARTITION` of the checkpoint, kept versions included, for each operator.",
    unknown="The checkpoint's state could not be read, or it has none.",
    advice=(
        "One task with a hot key determines the duration of the batch. Salt the key, or split the stream. More "
        "partitions do not help."
    ),
    source="Design of Streamwarden.",
)
