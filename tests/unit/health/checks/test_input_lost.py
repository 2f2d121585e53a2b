"""Records that were deleted before any batch read them."""

from dataclasses import replace

import pytest

from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.health.checks.input import input_lost
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import PartitionLag, WaitingInput
from streamwarden.sources.delta.source import DeltaSource
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import SourceSpec
from support.streams.health_windows import judge, log, spec, window

TOPIC = KafkaSource(connection="events", topic="events")


def verdict(
    waiting: WaitingInput | None,
    source: SourceSpec = TOPIC,
    *,
    before: Verdict | None = None,
    at: LogPosition | None = log(3, 3),  # noqa: B008 (it is frozen)
) -> Verdict:
    previous = {} if before is None else {before.check: before}
    return judge(input_lost.CHECK, window(spec=spec(source=source), waiting=waiting, log=at, previous=previous))


def waits(**found: object) -> WaitingInput:
    return WaitingInput(what="record", count=9, since=1.0, **found)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("waiting", "status", "told"),
    [
        (None, Status.UNKNOWN, "did not report"),
        (waits(), Status.OK, "still has every record"),
        (waits(lost={"events-1": 1}), Status.WARNING, "1 record deleted before any batch read them (events-1)"),
        (waits(lost={"events-1": 2}), Status.CRITICAL, "2 records"),
        (waits(lost={"events-0": 5, "events-1": 2000}), Status.CRITICAL, "2,005 records"),
        (waits(rewound=("events-0",)), Status.CRITICAL, "recreated: events-0"),
    ],
)
def test_each_record_that_is_gone_is_one_too_many(waiting: WaitingInput | None, status: Status, told: str) -> None:
    found = verdict(waiting)
    assert found.status is status
    assert told in found.reason


@pytest.mark.parametrize(
    ("waiting", "before"),
    [(waits(rewound=("events-0",), lost={"events-0": 3}), None), (waits(topic_id="two"), waits(topic_id="one"))],
)
def test_the_advice_for_a_recreated_topic_begins_with_the_right_cure(
    waiting: WaitingInput, before: WaitingInput | None
) -> None:
    """A new checkpoint alone loses rows: the old output's manifest skips the numbers of its batches."""
    found = verdict(waiting, before=None if before is None else verdict(before))
    assert found.status is Status.CRITICAL
    first, second, *_ = found.advice.split(". ")
    assert first.startswith(
        "If the topic was deleted and recreated, give the stream a new checkpoint path and a new output"
    )
    assert second.startswith("A new checkpoint alone is not enough")
    assert "retention" not in found.advice


def test_the_advice_for_a_retention_that_passed_the_stream_is_another_one() -> None:
    found = verdict(waits(lost={"events-1": 2000}))
    assert found.advice.startswith("If the topic's retention deleted records before the stream read them, raise it")
    assert "new checkpoint" not in found.advice


def test_a_topic_with_another_id_was_recreated_however_far_it_has_grown() -> None:
    """CRITICAL for as long as this checkpoint is in use; looks that saw nothing in between forget nothing."""
    first = verdict(waits(topic_id="one"))
    blind = verdict(None, before=first)
    no_log = verdict(waits(topic_id="two"), before=blind, at=None)
    silent = verdict(waits(), before=no_log)
    assert [first.status, blind.status, no_log.status, silent.status] == [
        Status.OK,
        Status.UNKNOWN,
        Status.UNKNOWN,
        Status.OK,
    ]
    found = verdict(waits(topic_id="two"), before=silent)
    untold = verdict(waits(), before=found)
    unasked = verdict(None, before=untold)
    again = verdict(waits(), before=unasked)
    assert [found.status, untold.status, unasked.status, again.status] == [
        Status.CRITICAL,
        Status.CRITICAL,
        Status.UNKNOWN,
        Status.CRITICAL,
    ]
    assert "its id is two, and the topic that this checkpoint has read had the id one" in again.reason


@pytest.mark.parametrize("way_out", ["a new checkpoint", "another topic", "another cluster"])
def test_new_start_is_compared_with_the_current_topic(way_out: str) -> None:
    first = verdict(waits(topic_id="one"))
    if way_out == "a new checkpoint":
        found = verdict(waits(topic_id="two"), before=first, at=replace(log(0, 0), query_id="another"))
    else:
        changed = {"topic": "other"} if way_out == "another topic" else {"connection": "mirror"}
        found = verdict(waits(topic_id="two"), replace(TOPIC, **changed), before=first)
    assert found.status is Status.OK
    assert found.evidence["topic_id"] == "two"


def test_a_folder_of_files_has_no_retention() -> None:
    assert verdict(None, FilesSource(path="/in")).status is Status.OK


def test_of_a_script_that_may_read_a_topic_nothing_is_known() -> None:
    assert verdict(None, SourceSpec()).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("planned", "committed", "last", "anew"),
    [
        (9, 9, 9, False),
        (12, 9, 12, False),
        (12, 9, 11, True),
        (9, 9, 8, True),
        (8, 9, 8, True),  # the batch that found it is planned to end where the new topic ends
    ],
)
def test_topic_that_ends_before_the_read_offsets_was_recreated(
    planned: int, committed: int, last: int, anew: bool
) -> None:
    lag = PartitionLag(partition=0, planned=planned, committed=committed, first=0, last=last)
    assert lag.rewound is anew


TABLE = DeltaSource(path="/lake/a")


@pytest.mark.parametrize(
    ("waiting", "status", "told"),
    [
        (None, Status.UNKNOWN, "could not be read"),
        (waits(), Status.OK, "still has every commit"),
        (waits(lost={"version 3 of its log": 1}), Status.WARNING, "no longer has version 3 of its log"),
        (waits(lost={f"version {n} of its log": 1 for n in range(5)}), Status.CRITICAL, "and 2 more"),
    ],
)
def test_a_table_loses_commits_and_files_of_its_log(waiting: WaitingInput | None, status: Status, told: str) -> None:
    found = verdict(waiting, TABLE)
    assert found.status is status
    assert told in found.reason
    assert "logRetentionDuration" in found.advice or status not in (Status.WARNING, Status.CRITICAL)
