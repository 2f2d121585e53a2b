"""The snapshots that a driver stages beside the history of an Iceberg table, and those with which Iceberg publishes one
on top of another program's commit. The properties are those that Iceberg 1.12.0 writes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamwarden.adapters.iceberg.clone import cloned
from streamwarden.adapters.iceberg.metadata import BATCH, PUBLISHED, QUERY, STAGED, TableMetadata, parsed, staging_name
from streamwarden.errors import BatchUnknown
from streamwarden.sinks.iceberg.writer import has_batch

MINE = "query-1"


def staged(number: int, parent: int | None, batch: int) -> dict[str, Any]:
    """A snapshot that was staged; it is in the history if the table's newest descends from it."""
    named = {STAGED: staging_name(MINE, batch), QUERY: MINE, BATCH: str(batch)}
    return snapshot(number, parent, named)


def publishing(number: int, parent: int, batch: int) -> dict[str, Any]:
    return snapshot(number, parent, {PUBLISHED: staging_name(MINE, batch), "source-snapshot-id": "1"})


def snapshot(number: int, parent: int | None, properties: dict[str, str]) -> dict[str, Any]:
    return {
        "snapshot-id": number,
        "parent-snapshot-id": parent,
        "sequence-number": number,
        "timestamp-ms": number * 1000,
        "summary": {"operation": "append", **properties},
    }


def table(current: int | None, *snapshots: dict[str, Any]) -> TableMetadata:
    document = {"location": "/t", "schemas": [], "current-snapshot-id": current, "snapshots": snapshots}
    return parsed(json.dumps(document).encode(), "v1.metadata.json", 1)


def test_a_batch_that_was_staged_alone_is_not_in_the_table() -> None:
    known = table(1, staged(1, None, 0), staged(2, 1, 1))
    assert (known.newest_batch([MINE]), known.staged(MINE, 1)) == (0, 2)
    assert not has_batch(known, MINE, 1, planned_before=1)


def test_a_batch_whose_staged_snapshot_is_the_newest_is_in_the_table() -> None:
    known = table(2, staged(1, None, 0), staged(2, 1, 1))
    assert has_batch(known, MINE, 1, planned_before=1)
    assert known.staged(MINE, 1) is None


def test_a_batch_that_was_published_after_the_commit_of_another_program_is_in_the_table_once() -> None:
    known = table(4, staged(1, None, 0), staged(2, 1, 1), snapshot(3, 1, {}), publishing(4, 3, 1))
    assert sorted(known.batches([MINE])) == [0, 1]
    assert known.repeated([MINE]) == []
    assert known.newest_of_others([MINE]) is None


def test_a_batch_that_is_in_the_table_twice_is_found() -> None:
    assert table(2, staged(1, None, 0), staged(2, 1, 0)).repeated([MINE]) == [0]


def test_of_two_staged_snapshots_of_a_batch_the_newer_one_is_published() -> None:
    assert table(1, staged(1, None, 0), staged(3, 1, 1), staged(2, 1, 1)).staged(MINE, 1) == 3


@pytest.mark.parametrize("current", [None, 2])
def test_a_snapshot_that_was_never_published_does_not_make_a_table_look_expired(current: int | None) -> None:
    """The first driver was killed between staging and publishing, so the table's first snapshot is not number 1."""
    known = table(current, staged(1, None, 0), *([staged(2, None, 0)] if current else []))
    assert known.is_whole


def test_a_table_whose_first_snapshot_is_expired_is_not_whole() -> None:
    known = table(3, snapshot(3, None, {}), staged(2, 1, 0))
    assert not known.is_whole
    with pytest.raises(BatchUnknown):
        has_batch(known, MINE, 0, planned_before=0)


def test_the_name_of_another_writer_is_no_batch() -> None:
    known = table(1, snapshot(1, None, {PUBLISHED: "audit/7"}))
    assert known.newest_of_others([MINE]) is None


def test_a_fork_knows_the_batches_that_its_origin_publishing() -> None:
    known = table(3, staged(1, None, 0), snapshot(2, 1, {}), publishing(3, 2, 1))
    forked = parsed(cloned(known, "/fork", known.snapshots[3], [MINE], "fork"), "v1.metadata.json", 1)
    assert sorted(forked.batches(["fork"])) == [0, 1]
    assert not forked.batches([MINE])
