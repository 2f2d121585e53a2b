"""When an asset event about a stream's progress is due, and what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.errors import InvalidValue
from streamwarden.lifecycle.publishing import NewBatches, Publication, event, is_due
from streamwarden.stream.publish import PublishSpec

NOW = 1_800_000_000.0
HOUR = 3600.0
HOURLY, PER_TEN = PublishSpec(every=HOUR), PublishSpec(batches=10)
LAST = Publication(
    stream="flights", query_id="q", batch_id=40, batch_at=NOW - HOUR, published_at=NOW - HOUR, run="run-1"
)
NEW = NewBatches(query_id="q", batch_id=52, at=NOW - 2, watermark=NOW - 60.25, batches=12, rows=900, unreported=1)


def ago(seconds: float) -> Publication:
    return replace(LAST, published_at=NOW - seconds)


@pytest.mark.parametrize(
    ("last", "due"),
    [
        (None, True),  # the first event needs no hour
        (ago(HOUR - 1), False),
        (ago(HOUR), True),
        (ago(30 * HOUR), True),  # after an outage, once
    ],
)
def test_an_event_by_time_is_due_when_the_time_is_up(last: Publication | None, due: bool) -> None:
    assert is_due(HOURLY, last, NEW, NOW) is due


@pytest.mark.parametrize("batches", [9, 10, 11, 1000])
@pytest.mark.parametrize("last", [None, LAST, ago(0)])
def test_an_event_by_batches_is_due_when_there_are_enough(last: Publication | None, batches: int) -> None:
    """However little or much time has passed, and for the first event too."""
    assert is_due(PER_TEN, last, replace(NEW, batches=batches), NOW) is (batches >= 10)


@pytest.mark.parametrize("policy", [HOURLY, PER_TEN, PublishSpec()])
@pytest.mark.parametrize("last", [None, ago(30 * HOUR)])
def test_nothing_is_due_without_progress(policy: PublishSpec, last: Publication | None) -> None:
    assert not is_due(policy, last, None, NOW)


def test_a_stream_that_declares_nothing_publishes_nothing() -> None:
    assert not PublishSpec().wanted
    assert not is_due(PublishSpec(), None, NEW, NOW)


def test_an_event_says_how_far_the_stream_has_come() -> None:
    made = event("flights", LAST, NEW, NOW, "run-2")
    assert made.publication == Publication(
        stream="flights",
        query_id="q",
        batch_id=52,
        batch_at=NOW - 2,
        published_at=NOW,
        run="run-2",
        pending=True,
    )
    assert made.extra == {
        "stream": "flights",
        "query_id": "q",
        "batch_id": 52,
        "after_batch_id": 40,
        "committed_at": "2027-01-15T07:59:58.000+00:00",
        "watermark": "2027-01-15T07:58:59.750+00:00",
        "batches": 12,
        "rows": 900,
        "unreported_batches": 1,
    }


@pytest.mark.parametrize("last", [None, replace(LAST, query_id="before")])
def test_batches_of_another_checkpoint_are_not_counted_from(last: Publication | None) -> None:
    """Their ids mean something else. A query without a watermark has none in its event."""
    extra = event("flights", last, replace(NEW, watermark=None), NOW, "run-2").extra
    assert (extra["after_batch_id"], extra["watermark"]) == (None, None)


@pytest.mark.parametrize(
    ("every", "batches", "key"),
    [(60.0, 5, "batches"), (0.0, None, "every"), (None, 0, "batches"), (None, -1, "batches")],
)
def test_what_makes_no_sense_is_refused(every: float | None, batches: int | None, key: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        PublishSpec(every=every, batches=batches)
    assert caught.value.key == key
