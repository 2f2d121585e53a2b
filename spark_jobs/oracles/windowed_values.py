"""The oracle of `windowed_values`: the same question answered by a plain loop over every value there was.

Written from the question, not from the job, and shares no code with it: standard library only, no Spark, no parquet.

The question: of the values that count up from 0, so many a second since the checkpoint's own beginning, how many fell
into each window, and what are their sum, the least and the greatest of them? A window that the newest time has not left
behind by the watermark's delay is still open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from streamwarden.errors import VerificationError
from streamwarden.units import parse_duration
from streamwarden.verification.batches import moment, timeline
from streamwarden.verification.oracle import Expectation, RateFacts, RowCounts, RunFacts
from streamwarden.verification.reconciliation import Key, Values
from streamwarden.verification.windows import Sliding


def values(rate: RateFacts, batch: int) -> Iterator[tuple[int, int]]:
    """(time in Unix milliseconds, value) of each row of a batch. Raises VerificationError if its seconds are unknown.

    A batch's rows lie evenly in its seconds; their times are rounded to milliseconds, halves up.
    """
    begins, ends = (0 if batch == 0 else rate.ends.get(batch - 1)), rate.ends.get(batch)
    if begins is None or ends is None:
        raise VerificationError(
            f"the offset log does not say which seconds were in batch {batch}",
            expected="the offsets of each batch from 0 on",
            where="offsets/",
            next_step="verify a run of fewer batches, or raise spark.sql.streaming.minBatchesToRetain",
        )
    first, last = begins * rate.rows_per_second, ends * rate.rows_per_second
    for value in range(first, last):
        apart = 1000 * (ends - begins) / (last - first)
        yield rate.began_ms + begins * 1000 + math.floor((value - first) * apart + 0.5), value


_TYPES: Final = {
    "window_start": "TIMESTAMP",
    "window_end": "TIMESTAMP",
    "values": "BIGINT",
    "total": "BIGINT",
    "least": "BIGINT",
    "greatest": "BIGINT",
}
"""The whole set of columns of the output."""


def expected(inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output of a run of `windowed_values`; it has no input files."""
    lengths = {"window": 300.0, "slide": 60.0, "watermark": 60.0}
    for arg in facts.args:
        name, _, duration = arg.partition("=")
        lengths[name] = parse_duration(duration)
    length, slide, delay = (round(1000 * lengths[name]) for name in ("window", "slide", "watermark"))
    if facts.rate is None:
        raise VerificationError(
            "the stream's source is not the rate source", expected="source: {kind: rate}", where="source.kind"
        )
    sliding = Sliding(length, slide)
    windows: dict[int, list[int]] = {}
    tops: dict[int, int | None] = {}
    records = pairs = 0
    for batch in sorted(facts.watermarks):
        tops[batch] = None
        for at, value in values(facts.rate, batch):
            tops[batch] = at
            records += 1
            for start in sliding.starts(at):
                pairs += 1
                known = windows.setdefault(start, [0, 0, value, value])
                known[0] += 1
                known[1] += value
                known[3] = value  # they count up
    line = timeline([tops], [delay], facts)
    final = line.marks.get(line.committed, 0)
    before = line.marks.get(facts.first - 1, 0)
    rows: dict[Key, Values] = {}
    counted = {"emitted": 0, "emitted_before": 0, "open": 0}
    for start, (count, total, least, greatest) in windows.items():
        end = start + length
        if end > final:
            counted["open"] += count
        elif end <= before:
            counted["emitted_before"] += count
        else:
            counted["emitted"] += count
            rows[(moment(start),)] = (moment(end), count, total, least, greatest)
    return Expectation(
        key_columns=("window_start",),
        value_columns=("window_end", "values", "total", "least", "greatest"),
        types=_TYPES,
        complete=True,
        rows=rows,
        counts=RowCounts(records=records, malformed=0, pairs=pairs, dropped=0, **counted),
        count_column="values",
        problems=line.problems,
        notes={"batches": len(facts.watermarks), "final_watermark": str(moment(final))},
    )
