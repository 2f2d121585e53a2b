"""The queries of a stream: which there are, how each runs, and what happens when one gets another name."""

from dataclasses import replace

from streamwarden.adapters.store import Store
from streamwarden.stream.spec import TriggerSpec
from support.streams.queries import query_record
from support.streams.reports import report

FIRST = query_record("pair", "left", driver="pair-1", at=100.0)
AGAIN = query_record("pair", "left", driver="pair-2", at=200.0, trigger=TriggerSpec(real_time=5.0))


def test_a_query_from_its_first_start_to_its_end(store: Store) -> None:
    store.queries.started(FIRST)
    store.queries.started(AGAIN)
    (known,) = store.queries.of("pair")
    assert known == replace(AGAIN, first_at=100.0), "it was first seen in its first run"
    store.queries.ended("pair", "left", AGAIN.run_id, 250.0, "it broke")
    store.queries.ended("pair", "left", AGAIN.run_id, 300.0, None)
    (known,) = store.queries.of("pair")
    assert (known.ended_at, known.error) == (250.0, "it broke"), "the first word on an end stays"


def test_a_late_record_of_an_older_run_changes_nothing(store: Store) -> None:
    """The process that records the end of a dead driver repeats what that driver started."""
    store.queries.started(AGAIN)
    store.queries.started(FIRST)
    store.queries.ended("pair", "left", FIRST.run_id, 250.0, "it broke")
    assert store.queries.of("pair") == (AGAIN,)


def test_recording_a_start_again_does_not_bring_an_ended_query_back(store: Store) -> None:
    store.queries.started(FIRST)
    store.queries.ended("pair", "left", FIRST.run_id, 150.0, None)
    store.queries.started(FIRST)
    assert store.queries.of("pair")[0].ended_at == 150.0


def test_the_queries_of_many_streams(store: Store) -> None:
    store.queries.started(FIRST)
    store.queries.started(query_record("other", "", driver="other-1", at=1.0))
    found = store.queries.of_many(["pair", "other", "none"])
    assert {stream: [each.name for each in records] for stream, records in found.items()} == {
        "pair": ["left"],
        "other": [""],
        "none": [],
    }
    store.queries.forget("pair", "left")
    assert store.queries.of("pair") == ()


def test_batches_move_with_their_query_and_no_other(store: Store) -> None:
    """The second query of a script comes unforeseen: the first one was kept under the stream's name until then."""
    for number in range(3):
        store.batches.upsert_progress("pair", report(number))
    other = report(0, id="00000000-0000-4000-8000-000000000000")
    store.batches.upsert_progress("pair", other)
    store.batches.upsert_logged("pair/left", report(0).query_id, 1, 50.0, 60.0)  # another process read the logs
    assert store.batches.move("pair", report(0).query_id, "pair/left") == 3
    assert [(each.batch_id, each.progress is not None) for each in store.batches.window("pair/left")] == [
        (0, True),
        (1, True),
        (2, True),
    ]
    assert [each.query_id for each in store.batches.window("pair")] == [other.query_id]
    assert store.batches.operators("pair/left", 0.0) != ()
    assert store.batches.move("pair", report(0).query_id, "pair/left") == 0, "twice is once"
    assert len(store.batches.window("pair/left")) == 3


def test_verdicts_of_a_removed_check_can_be_forgotten(store: Store) -> None:
    from streamwarden.health.verdict import Status, Verdict

    store.verdicts.save([Verdict(stream="pair", check=name, status=Status.OK, at=1.0) for name in ("one", "two")])
    store.verdicts.forget([("pair", "one")])
    assert [each.check for each in store.verdicts.latest("pair")] == ["two"]
