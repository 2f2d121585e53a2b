"""The records of a topic that a restore took back: which these are, and the list of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamwarden.sinks.kafka.taking_back import Cut, cuts_of, list_of, write_list
from streamwarden.verification.comparing.events import Event

CUT = Cut(query="q", after=7, before={0: 10, 1: 0})


@pytest.mark.parametrize(
    ("query", "batch", "partition", "offset", "taken"),
    [
        ("q", 8, 0, 9, True),
        ("q", 7, 0, 9, False),  # the batch of the savepoint
        ("q", 8, 0, 10, False),  # written after the restore
        ("q", 8, 1, 0, False),  # the partition was empty
        ("q", 8, 2, 0, False),  # the partition was added since
        ("other", 8, 0, 9, False),
        (None, None, 0, 9, False),  # no batch is named
    ],
)
def test_a_record_is_taken_back_by_its_query_its_batch_and_its_place(
    query: str | None, batch: int | None, partition: int, offset: int, taken: bool
) -> None:
    event = Event(b"k", b"v", "id", query, batch, partition, offset)
    assert CUT.takes_back(event) is taken


def test_each_restore_of_a_checkpoint_has_a_list(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    assert cuts_of(checkpoint) == ()
    later = Cut(query="q", after=3, before={0: 20})
    assert write_list(list_of(checkpoint, "2"), later, []) == 0
    assert write_list(list_of(checkpoint, "1"), CUT, [Event(b"", b"", "id", "q", 8, 0, 9)]) == 1
    assert write_list(list_of(f"{checkpoint}2", "1"), CUT, []) == 0
    assert cuts_of(f"file://{checkpoint}/") == (CUT, later)
    record = list_of(checkpoint, "1").read_text().splitlines()[1]
    assert json.loads(record) == {"partition": 0, "offset": 9, "batch": 8, "event_id": "id"}
