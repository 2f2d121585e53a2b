"""The command `state removed`: what left the state in each batch."""

from __future__ import annotations

from streamwarden.cli.exit_codes import Exit
from support.command_line import CommandLine
from support.streams.reports import operator, report

STREAM = """
name: minutes
job: spark_jobs/job.py
source: {path: m/input}
sink: {path: m/output}
checkpoint: m/checkpoint
"""


def test_what_left_the_state(cli: CommandLine) -> None:
    cli.project.write("config/streams/minutes.yaml", STREAM)
    empty = cli("state", "removed", "minutes")
    assert (empty.code, "no report of a batch" in empty.out) == (Exit.OK, True)
    processor = operator(numRowsRemoved=0, numRowsTotal=7)
    processor["customMetrics"] |= {"numValuesRemovedDueToTTLExpiry": 3, "numExpiredTimers": 2}
    with cli.store() as store:
        for batch, removed in ((0, 0), (1, 5), (2, 9)):
            evicting = operator(numRowsRemoved=removed, numRowsDroppedByWatermark=batch, numRowsTotal=40 - removed)
            store.batches.upsert_progress("minutes", report(batch, stateOperators=[evicting, processor]))
    shown = cli("state", "removed", "minutes", "--last", "2", "--json").json["removals"]
    counts = ("batch", "operator", "removed", "expired", "timers", "late", "left")
    assert [tuple(row[name] for name in counts) for row in shown] == [
        (1, 0, 5, 0, 0, 1, 35),
        (1, 1, 0, 3, 2, 0, 7),
        (2, 0, 9, 0, 0, 2, 31),
        (2, 1, 0, 3, 2, 0, 7),
    ]
    text = cli("state", "removed", "minutes").out
    assert "removed" in text
    assert "31" in text
