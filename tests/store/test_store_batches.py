"""Micro-batches: reports and logs may come in any order, twice, or not at all."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.history.merging import BatchRow, from_progress, merge, to_batch
from streamwarden.health.window import Batch, Measurement
from streamwarden.progress import Progress, parse_progress
from support.streams.reports import QUERY, START, idle, operator, report
from support.streams.statements import Statements

STREAM = "flights"


def ids(batches: tuple[Batch, ...]) -> list[int]:
    return [batch.batch_id for batch in batches]


def test_a_report_comes_back_as_spark_wrote_it(store: Store) -> None:
    given = report(4, observedMetrics={"späte": {"Zeilen": 3}}, somethingNew={"kept": True})
    store.batches.upsert_progress(STREAM, given)
    (batch,) = store.batches.window(STREAM)
    assert (batch.stream, batch.query_id, batch.batch_id) == (STREAM, QUERY, 4)
    assert batch.progress == given
    assert batch.progress is not None
    assert parse_progress(batch.progress.raw) == given


def test_the_window_is_the_newest_batches_oldest_first(store: Store) -> None:
    store.batches.upsert_many(STREAM, [report(batch_id) for batch_id in reversed(range(20))])
    store.batches.upsert_progress("other", report(99))
    assert ids(store.batches.window(STREAM, limit=5)) == [15, 16, 17, 18, 19]


def test_the_window_goes_on_when_a_new_checkpoint_begins_at_batch_zero(store: Store) -> None:
    store.batches.upsert_many(STREAM, [report(100), report(101)])
    later = START + 1000
    store.batches.upsert_many(STREAM, [report(batch_id, at=later + batch_id, id="second-query") for batch_id in (0, 1)])
    assert ids(store.batches.window(STREAM, limit=3)) == [101, 0, 1]


def test_the_first_batch_of_each_run_is_found_however_old_it_is(store: Store) -> None:
    """An idle trigger is not a batch, and a run that the store does not know is left out."""
    store.batches.upsert_many(STREAM, [report(number, run_id="one") for number in range(3)])
    store.batches.upsert_many(STREAM, [report(number, run_id="two", rows=7) for number in range(3, 400)])
    store.batches.upsert_progress("other", report(0, run_id="one"))
    store.batches.upsert_progress(STREAM, idle(400, at=START + 1000))
    first = store.batches.first_of_runs(STREAM, ["one", "two", "three"])
    assert {run: found.batch_id for run, found in first.items()} == {"one": 0, "two": 3}


def test_the_rows_of_the_last_minutes_are_those_of_batches_that_ran(store: Store) -> None:
    store.batches.upsert_many(STREAM, [report(number, rows=10) for number in range(5)])
    store.batches.upsert_progress("other", report(0, rows=3))
    assert store.batches.flows_since([STREAM, "other", "nobody"], START + 4)[STREAM].rows == 30


def test_a_batch_whose_report_was_lost_is_filled_in_from_the_logs(store: Store) -> None:
    store.batches.upsert_progress(STREAM, report(0))
    store.batches.upsert_logged(STREAM, QUERY, 1, START + 2, START + 3)
    assert store.batches.window(STREAM)[1] == Batch(
        stream=STREAM, query_id=QUERY, batch_id=1, planned_at=START + 2, committed_at=START + 3
    )


def test_a_batch_that_runs_is_planned_and_not_committed(store: Store) -> None:
    store.batches.upsert_logged(STREAM, QUERY, 1, START + 2, None)
    (batch,) = store.batches.window(STREAM)
    assert (batch.planned_at, batch.committed_at, batch.progress) == (START + 2, None, None)


def test_missing_are_the_batches_that_nothing_accounts_for(store: Store) -> None:
    store.batches.upsert_many(STREAM, [report(0), report(3)])
    store.batches.upsert_logged(STREAM, QUERY, 1, START, START + 1)
    store.batches.upsert_logged(STREAM, QUERY, 5, START + 9, None)  # planned only: it may run yet
    store.batches.upsert_progress(STREAM, idle(6, at=START + 12))
    assert store.batches.missing(STREAM, QUERY, 6) == (2, 4, 5, 6)
    assert store.batches.missing(STREAM, QUERY, 5, since=4) == (4, 5)
    assert store.batches.missing(STREAM, "another query", 1) == (0, 1)


def test_an_idle_trigger_is_seen_until_its_batch_is_planned(store: Store) -> None:
    """Spark reports idle triggers under the id of the batch that would come next."""
    store.batches.upsert_progress(STREAM, report(0))
    store.batches.upsert_progress(STREAM, idle(1, at=START + 10))
    store.batches.upsert_progress(STREAM, idle(1, at=START + 20))
    newest = store.batches.window(STREAM)[-1]
    assert newest.progress is not None
    assert newest.progress.at == START + 20
    assert store.batches.summary(STREAM).batches == 1

    store.batches.upsert_logged(STREAM, QUERY, 1, START + 25, None)
    assert store.batches.window(STREAM)[-1].progress is None, "a batch runs now"

    store.batches.upsert_progress(STREAM, report(1, at=START + 24))
    newest = store.batches.window(STREAM)[-1]
    assert newest.progress is not None
    assert newest.progress.rows == 200


def test_an_idle_report_never_hides_a_run(store: Store) -> None:
    for progress in (report(1, at=START), idle(1, at=START + 60)):
        store.batches.upsert_progress(STREAM, progress)
    (batch,) = store.batches.window(STREAM)
    assert batch.progress == report(1, at=START)


@pytest.mark.parametrize(("rows", "phases"), [(10, ()), (0, ("walCommit",))], ids=["only rows", "only its plan"])
def test_one_sign_of_a_run_makes_the_report_count(store: Store, rows: int, phases: tuple[str, ...]) -> None:
    store.batches.upsert_progress(STREAM, report(1, rows=rows, durationMs=dict.fromkeys(phases, 1)))
    store.batches.upsert_logged(STREAM, QUERY, 1, START, None)
    (batch,) = store.batches.window(STREAM)
    assert batch.progress is not None, "unlike an idle trigger's, it is of this batch"
    assert store.batches.summary(STREAM).rows == rows


def test_a_batch_that_ran_again_after_a_kill_is_counted_once_with_the_second_run(store: Store) -> None:
    store.batches.upsert_progress(STREAM, report(1, at=START, run_id="first", rows=10))
    store.batches.upsert_progress(STREAM, report(1, at=START + 60, run_id="second", rows=10))
    (batch,) = store.batches.window(STREAM)
    assert batch.progress is not None
    assert batch.progress.run_id == "second"
    assert (store.batches.summary(STREAM).batches, store.batches.summary(STREAM).rows) == (1, 10)


def test_state_operators_are_kept_as_columns(store: Store) -> None:
    join = operator(operatorName="symmetricHashJoin", numRowsTotal=7, commitTimeMs=11, sst=0)
    dedupe = operator(operatorName="dedupe", numRowsTotal=9, commitTimeMs=13, sst=4096)
    store.batches.upsert_progress(STREAM, report(0, stateOperators=[join, dedupe]))
    rows = store.batches.operators(STREAM, since=START)
    assert [(row["name"], row["rows_total"], row["commit_ms"], row["sst_bytes"], row["at"]) for row in rows] == [
        ("symmetricHashJoin", 7, 11, None, START),
        ("dedupe", 9, 13, 4096, START),
    ]
    assert store.batches.operators(STREAM, since=START + 1) == ()


def test_a_second_report_replaces_the_operators_of_the_first(store: Store) -> None:
    two = [operator(numRowsTotal=1), operator(numRowsTotal=2)]
    store.batches.upsert_progress(STREAM, report(0, stateOperators=two))
    store.batches.upsert_progress(STREAM, report(0, at=START + 5, stateOperators=[operator(numRowsTotal=3)]))
    assert [row["rows_total"] for row in store.batches.operators(STREAM, since=0)] == [3]


def test_the_summary_counts_what_was_committed(store: Store) -> None:
    store.batches.upsert_many(STREAM, [report(batch_id, rows=batch_id) for batch_id in range(4)])
    store.batches.upsert_logged(STREAM, QUERY, 4, START + 8, START + 9)
    store.batches.upsert_logged(STREAM, QUERY, 5, START + 10, None)
    summary = store.batches.summary(STREAM)
    assert (summary.batches, summary.rows, summary.unreported) == (5, 0 + 1 + 2 + 3, 1)
    assert (summary.first_at, summary.last_at) == (START, START + 9)
    assert summary.last is not None
    assert summary.last.batch_id == 4
    nothing = store.batches.summary("nobody")
    assert (nothing.batches, nothing.rows, nothing.last) == (0, 0, None)


TIMES = st.integers(0, 5).map(lambda tick: START + 600 * tick)


@st.composite
def rows(draw: st.DrawFn, batch_id: int = 0) -> BatchRow | Progress:
    """What can be learned of a batch: a log position, a report of a run, a report of an idle trigger."""
    kind = draw(st.sampled_from(["logged", "ran", "idle"]))
    if kind == "logged":
        times = draw(TIMES), draw(st.none() | TIMES)
        return BatchRow(stream="", query_id=QUERY, batch_id=batch_id, planned_at=times[0], committed_at=times[1])
    if kind == "idle":
        return idle(batch_id, at=draw(TIMES))
    size = draw(st.integers(1, 3))
    operators = [operator(numRowsTotal=size + number) for number in range(draw(st.integers(0, 2)))]
    run_id = draw(st.sampled_from(["one", "two"]))
    return report(batch_id, at=draw(TIMES), rows=size, run_id=run_id, stateOperators=operators)


def as_row(fact: BatchRow | Progress) -> BatchRow:
    return fact if isinstance(fact, BatchRow) else from_progress("", fact)


UNHURRIED = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@UNHURRIED
@given(rows(), rows(), rows())
def test_merging_is_commutative_associative_and_idempotent(
    one: BatchRow | Progress, two: BatchRow | Progress, three: BatchRow | Progress
) -> None:
    a, b, c = as_row(one), as_row(two), as_row(three)
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert merge(a, a) == a
    to_batch(merge(a, b))


_STREAMS = itertools.count()


@settings(UNHURRIED, max_examples=20)
@given(st.lists(st.integers(0, 2).flatmap(rows), max_size=8), st.data())
def test_the_store_knows_the_same_whatever_the_order(
    store: Store, facts: list[BatchRow | Progress], data: st.DataObject
) -> None:
    """Each fact is recorded once for one stream, and in another order, some twice, for another stream."""
    again = data.draw(st.lists(st.sampled_from(facts), max_size=4)) if facts else []
    shuffled = data.draw(st.permutations(facts + again))
    seen = []
    for order in (facts, shuffled):
        stream = f"s{next(_STREAMS)}"
        for fact in order:
            if isinstance(fact, BatchRow):
                store.batches.upsert_logged(stream, QUERY, fact.batch_id, fact.planned_at, fact.committed_at)
            else:
                store.batches.upsert_progress(stream, fact)
        store.roll_up(START + 86400)
        seen.append(
            (
                [(b.batch_id, b.planned_at, b.committed_at, b.progress) for b in store.batches.window(stream)],
                [{**row, "stream": ""} for row in store.batches.operators(stream, 0)],
                [(each.name, each.at, each.value) for each in store.measurements.hourly(stream, 0)],
                store.batches.missing(stream, QUERY, 3),
            )
        )
    assert seen[0] == seen[1]


@pytest.mark.parametrize("phase", ["addBatch", "walCommit", "commitOffsets"])
def test_a_report_with_a_phase_of_a_run_is_of_a_batch_that_ran(store: Store, phase: str) -> None:
    store.batches.upsert_progress(STREAM, report(0, durationMs={"triggerExecution": 5, phase: 3}))
    assert store.batches.missing(STREAM, QUERY, 0) == ()


def test_the_newest_batch_of_each_stream_in_one_query(store: Store) -> None:
    store.batches.upsert_many(STREAM, [report(number, rows=10 + number) for number in range(5)])
    store.batches.upsert_logged(STREAM, QUERY, 5, START + 90, START + 100)
    report_with_mark = report(0, eventTime={"watermark": "2026-01-01T00:00:00.000Z"})
    assert report_with_mark.watermark
    store.batches.upsert_progress("other", report_with_mark)
    statements = Statements(store)
    found = store.batches.newest([STREAM, "other", "nobody"])
    assert statements.count == 1
    assert store.batches.newest([]) == {}
    assert set(found) == {STREAM, "other"}
    assert (found[STREAM].batch_id, found[STREAM].at, found[STREAM].first_at) == (5, START + 100, START)
    of_report = (found[STREAM].seconds, found[STREAM].rows, found[STREAM].watermark)
    assert of_report == (None, None, None)  # its report was lost
    assert (found["other"].rows, found["other"].watermark) == (200, report_with_mark.watermark)


def test_a_sample_is_spread_evenly_however_many_batches_there_are(store: Store) -> None:
    """The newest batch of each stretch; a stretch without one is left out."""
    store.batches.upsert_many(STREAM, [report(number) for number in range(100)])  # one every two seconds
    store.batches.upsert_progress(STREAM, idle(100, at=START + 201))
    store.batches.upsert_progress(STREAM, report(150, at=START + 300))
    sample = store.batches.sampled(STREAM, START, START + 400, 20)
    assert ids(sample) == [10, 20, 30, 40, 50, 60, 70, 80, 90, 99, 150]
    assert store.batches.sampled(STREAM, START + 500, START + 600, 20) == ()


def test_a_measurement_is_sampled_for_many_streams(store: Store) -> None:
    for name in ("a", "b"):
        store.measurements.add(
            Measurement(stream=name, name=kind, at=START + 10 * n, value=float(n), unit="bytes", source="test")
            for n in range(50)
            for kind in ("state_bytes", "another")
        )
    wanted = [("a", "state_bytes"), ("b", "another"), ("nobody", "another")]
    found = store.measurements.sampled(wanted, START, START + 400, 4)
    assert found["a", "state_bytes"] == (
        (START + 100, 10.0),
        (START + 200, 20.0),
        (START + 300, 30.0),
        (START + 400, 40.0),
    )
    assert found["b", "another"] == found["a", "state_bytes"]
    assert found["nobody", "another"] == ()
