"""What is measured while an application waits for its cluster."""

from __future__ import annotations

from streamwarden.clusters.waiting import Waiting
from streamwarden.health.window import Measurement
from streamwarden.services.fleet.applications.watch import ResourceWatch
from support.streams.health_windows import spec

WAITING = Waiting(what="resources in queue etl", said="full")


def test_the_time_counts_from_the_first_answer_in_a_row_that_it_waits() -> None:
    """One sample an answer, one more when the wait is over, none while it runs."""
    times = iter([10.0, 25.0, 40.0, 100.0])
    kept: list[Measurement] = []
    watch = ResourceWatch(spec(), lambda: None, measure=kept.extend, say=print, clock=lambda: next(times))
    for answer in (None, WAITING, WAITING, None, None, WAITING):
        watch.note(answer)

    words = "resources in queue etl (full)"
    seen = [(sample.at, sample.value, sample.source) for sample in kept]
    assert seen == [(10, 0, words), (25, 15, words), (40, 0, "nothing"), (100, 0, words)]
