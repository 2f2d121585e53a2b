"""Each committed batch is in exactly one asset event, whatever happens to the runs that publish them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.lifecycle.publishing import Ending
from streamwarden.services.exporting.progress_events import due_events
from streamwarden.stream.publish import PublishSpec
from streamwarden.stream.spec import StreamSpec
from support.streams.queries import query_record
from support.streams.reports import report

NOW = 1_800_000_000.0
HOUR = 3600.0


class Publisher:
    """The task that publishes, run after run, and an Airflow that keeps the events of the runs that succeed."""

    def __init__(self, store: Store, policy: PublishSpec) -> None:
        self.store = store
        self.spec = StreamSpec(name="flights", job="flights.py", checkpoint="/data/flights", publish=policy)
        self.now = NOW
        self.endings: dict[str, Ending] = {}
        self.events: list[Mapping[str, Any]] = []

    def run(self, ending: Ending = Ending.PUBLISHED, *, name: str = "", later: float = 60.0) -> int:
        """One run of the task; returns how many events it emitted."""
        self.now += later
        run = name or f"run-{len(self.endings)}"
        made = due_events(self.store, [self.spec], run=run, endings=self.ended, now=self.now)
        self.endings[run] = ending
        if ending is Ending.PUBLISHED:
            self.events += [each.extra for each in made]
        return len(made)

    def ended(self, runs: Sequence[str]) -> Mapping[str, Ending]:
        return {run: self.endings[run] for run in runs}

    def commit(self, *batches: int, query_id: str = "q", name: str = "flights", rows: int = 10) -> None:
        for batch in batches:
            self.now += 1
            self.store.batches.upsert_progress(name, report(batch, at=self.now, rows=rows, id=query_id))

    @property
    def covered(self) -> list[tuple[int | None, int]]:
        """The ranges of batches that the events cover."""
        return [(each["after_batch_id"], each["batch_id"]) for each in self.events]


@pytest.fixture
def publisher(store: Store) -> Callable[[PublishSpec], Publisher]:
    return lambda policy: Publisher(store, policy)


Make = Callable[[PublishSpec], Publisher]
EACH_TIME = PublishSpec(batches=1)


def test_each_batch_is_in_one_event(publisher: Make) -> None:
    """And a run without progress emits nothing."""
    at = publisher(EACH_TIME)
    assert at.run() == 0
    at.commit(0, 1, 2)
    assert [at.run(), at.run()] == [1, 0]
    at.commit(3)
    assert [at.run(), at.run(), at.run()] == [1, 0, 0]
    assert at.covered == [(None, 2), (2, 3)]
    assert [(each["batches"], each["rows"]) for each in at.events] == [(3, 30), (1, 10)]


def test_an_event_an_hour(publisher: Make) -> None:
    at = publisher(PublishSpec(every=HOUR))
    for batch in range(180):
        at.commit(batch)
        at.run(later=59.0)
    assert len(at.events) == 3
    assert [each["batches"] for each in at.events] == [1, 60, 60]


def test_after_an_outage_one_event_covers_all(publisher: Make) -> None:
    at = publisher(PublishSpec(every=HOUR))
    at.commit(0)
    at.run()
    at.commit(*range(1, 400))
    assert [at.run(later=30 * HOUR), at.run()] == [1, 0]
    assert at.covered == [(None, 0), (0, 399)]


def test_the_events_of_a_run_that_failed_are_sent_by_the_next(publisher: Make) -> None:
    """With what came meanwhile."""
    at = publisher(EACH_TIME)
    at.commit(0)
    at.run()
    at.commit(1)
    assert at.run(Ending.LOST) == 1
    at.commit(2)
    assert at.run(Ending.LOST) == 1
    assert at.run() == 1
    assert at.covered == [(None, 0), (0, 2)]


def test_second_try_of_a_run_sends_the_events_that_the_first_could_not(publisher: Make) -> None:
    at = publisher(EACH_TIME)
    at.commit(0)
    assert at.run(Ending.LOST, name="run") == 1
    assert at.run(name="run") == 1
    assert at.run() == 0
    assert at.covered == [(None, 0)]


def test_no_other_run_sends_the_events_of_an_unfinished_run(publisher: Make) -> None:
    at = publisher(EACH_TIME)
    at.commit(0)
    assert at.run(Ending.OPEN, name="slow") == 1
    at.commit(1)
    assert at.run() == 0
    at.endings["slow"] = Ending.PUBLISHED
    assert at.run() == 1
    assert at.covered == [(0, 1)]


def test_a_new_checkpoint_begins_again_and_nothing_is_left_out(publisher: Make) -> None:
    """The last batches of the old query are in the next event too."""
    at = publisher(EACH_TIME)
    at.commit(0, 1)
    at.run()
    at.commit(2)
    at.commit(0, query_id="other")
    assert at.run() == 1
    last = at.events[-1]
    assert (last["query_id"], last["after_batch_id"], last["batch_id"], last["batches"]) == ("other", None, 0, 2)
    assert at.run() == 0


def test_a_batch_that_a_restored_checkpoint_repeats_is_not_new(publisher: Make) -> None:
    at = publisher(EACH_TIME)
    at.commit(0, 1, 2)
    at.run()
    at.commit(1, 2)
    assert at.run() == 0
    at.commit(3)
    assert at.run() == 1
    assert at.covered == [(None, 2), (2, 3)]


def test_rows_of_a_batch_without_a_report_are_not_known(publisher: Make, store: Store) -> None:
    """Its commit is in the checkpoint. A batch that is only planned is no progress."""
    at = publisher(EACH_TIME)
    at.commit(0)
    at.run()
    store.batches.upsert_logged("flights", "q", 1, at.now, None)
    assert at.run() == 0
    store.batches.upsert_logged("flights", "q", 1, at.now, at.now + 1)
    at.commit(2)
    at.run()
    last = at.events[-1]
    assert (last["batches"], last["rows"], last["unreported_batches"]) == (2, 10, 1)


def test_each_of_several_queries_has_events_of_its_own(publisher: Make, store: Store) -> None:
    at = publisher(EACH_TIME)
    for name in ("left", "right"):
        store.queries.started(query_record("flights", name, driver="d", at=NOW))
    at.commit(0, 1, name="flights/left")
    at.run()
    at.commit(0, name="flights/right")
    at.run()
    assert [(each["stream"], each["batch_id"]) for each in at.events] == [("flights/left", 1), ("flights/right", 0)]


def test_a_stream_that_declares_nothing_is_not_looked_at(publisher: Make, store: Store) -> None:
    at = publisher(PublishSpec())
    at.commit(0, 1, 2)
    assert at.run() == 0
    assert store.publications.all() == ()
