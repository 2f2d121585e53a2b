"""Which launches are refused: store, checkpoint and output, compared without touching any of them."""

import pytest

from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.lifecycle.launch_check import KnownQuery, LaunchFacts, Mismatch, OutputEnd, refusal

OWN, OTHER = "1111-own", "2222-other"


def logs(query_id: str | None = None, planned: int | None = None, committed: int | None = None) -> LogPosition:
    return LogPosition(query_id=query_id, planned=planned, planned_at=None, committed=committed, committed_at=None)


def manifest(batch: int) -> OutputEnd:
    return OutputEnd(batch=batch, where="the manifest /out/_spark_metadata", consequence="rows would be lost")


def table(batch: int) -> OutputEnd:
    return OutputEnd(batch=batch, where="the batch table of t", consequence="refused", give_way="empty t")


def facts(found: LogPosition, **known: object) -> LaunchFacts:
    return LaunchFacts(checkpoint="/cp", found=found, **known)  # type: ignore[arg-type]


NEVER_RAN = facts(logs())
CONTINUES = facts(logs(OWN, 7, 6), known=KnownQuery(query_id=OWN, committed=6), own_committed=6, output=manifest(7))
FITS = {
    "a brand-new stream": NEVER_RAN,
    "a stream that goes on": CONTINUES,
    "one whose store was pruned, or is new": facts(logs(OWN, 500, 500), output=manifest(500)),
    "one whose batches were pruned": facts(
        logs(OWN, 500, 500), known=KnownQuery(query_id=OWN, committed=None), output=manifest(500)
    ),
    "a query that was killed before its first commit": facts(
        logs(OWN, 0), known=KnownQuery(query_id=OWN, committed=None), output=manifest(0)
    ),
    "a query that started and whose checkpoint was removed before any commit": facts(
        logs(), known=KnownQuery(query_id=OWN, committed=None)
    ),
    "a checkpoint whose `metadata` is damaged: Spark refuses it": facts(
        logs(None, 7, 7), known=KnownQuery(query_id=OWN, committed=7)
    ),
    "a checkpoint whose newest commit is lost: the batch runs again": facts(
        logs(OWN, 7, 6), known=KnownQuery(query_id=OWN, committed=7), own_committed=7
    ),
    "a new checkpoint path and a new output": facts(logs()),
    "a new checkpoint path beside an output that records no batch": facts(logs(), output=None),
}
REFUSED = {
    "gone": (Mismatch.CHECKPOINT_GONE, facts(logs(), known=KnownQuery(query_id=OWN, committed=57))),
    "emptied, with its id": (
        Mismatch.CHECKPOINT_GONE,
        facts(logs(OWN), known=KnownQuery(query_id=OWN, committed=57), own_committed=57),
    ),
    "emptied, and begun by another query": (
        Mismatch.CHECKPOINT_GONE,
        facts(logs(OTHER), known=KnownQuery(query_id=OWN, committed=57)),
    ),
    "another query's": (
        Mismatch.OTHER_QUERY,
        facts(logs(OTHER, 90, 90), known=KnownQuery(query_id=OWN, committed=57)),
    ),
    "older": (
        Mismatch.OLDER_CHECKPOINT,
        facts(logs(OWN, 40, 40), known=KnownQuery(query_id=OWN, committed=57), own_committed=57),
    ),
    "older, at another path": (Mismatch.OLDER_CHECKPOINT, facts(logs(OWN, 40, 40), own_committed=57)),
    "older, by the output alone": (Mismatch.OUTPUT_AHEAD, facts(logs(OWN, 40, 40), output=manifest(57))),
    "a new checkpoint in an old folder": (Mismatch.OUTPUT_AHEAD, facts(logs(), output=manifest(0))),
    "a new checkpoint with an old table": (Mismatch.OUTPUT_AHEAD, facts(logs(), output=table(57))),
}


@pytest.mark.parametrize("known", FITS.values(), ids=FITS)
def test_a_stream_that_fits_is_started(known: LaunchFacts) -> None:
    assert refusal([known]) is None


@pytest.mark.parametrize(("kind", "known"), REFUSED.values(), ids=REFUSED)
def test_a_contradiction_refuses_the_launch(kind: Mismatch, known: LaunchFacts) -> None:
    """The query that continues beside it does not hide it."""
    found = refusal([CONTINUES, known])
    assert found is not None
    assert found.kind is kind
    assert found.where == "/cp"
    assert found.first == known.newest + 1


def test_a_refusal_names_what_was_found_and_three_ways_on() -> None:
    found = refusal([facts(logs(), known=KnownQuery(query_id=OWN, committed=57), output=manifest(57))])
    assert found is not None
    assert OWN in found.observed
    assert "57" in found.observed
    ways = found.next_step.split("; or ")
    assert len(ways) == 3
    assert ways[0].startswith("restore")
    assert "new checkpoint path and a new output" in ways[1]
    assert "--begin-anew REASON" in ways[2]


def test_to_begin_anew_with_a_table_a_person_empties_it_first() -> None:
    """The store's own contradiction counts first; the table still stands in the way."""
    found = refusal([facts(logs(), known=KnownQuery(query_id=OWN, committed=57), output=table(57))])
    assert found is not None
    assert found.kind is Mismatch.CHECKPOINT_GONE
    assert found.give_way == "empty t"
    assert "empty t, then start it with" in found.next_step
