"""Raw rows live for days, their hourly roll-ups for more than a year, and no batch is lost in between."""

from dataclasses import replace

import pytest

from streamwarden.adapters.store import Pruned, Rolled, Statistic, Store
from streamwarden.adapters.store.history.measurements import RolledUp
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Measurement
from streamwarden.progress import Progress
from support.streams.reports import QUERY, START, operator, report

HOUR = 3600.0
DAY = 24 * HOUR
STREAM = "flights"


def batch(number: int, every: float = 600.0, **fields: object) -> Progress:
    """One batch each ten minutes from START on: six an hour."""
    return report(number, at=START + every * number, **fields)  # type: ignore[arg-type]


def memory(at: float, value: float, source: str = "/proc") -> Measurement:
    return Measurement(stream=STREAM, name="resident_memory", at=at, value=value, unit="bytes", source=source)


def hourly(store: Store, name: str, statistic: Statistic = Statistic.MEAN) -> list[tuple[float, float]]:
    found = store.measurements.hourly(STREAM, 0, statistic)
    return [((each.at - START) / HOUR, each.value) for each in found if each.name == name]


def test_an_hour_is_rolled_up_once_it_has_ended(store: Store) -> None:
    store.batches.upsert_many(STREAM, [batch(number, rows=10 * number) for number in range(12)])
    assert store.roll_up(START + 2 * HOUR - 1) == 1
    assert store.roll_up(START + 2 * HOUR) == 1
    assert hourly(store, Rolled.ROWS) == [(0.5, 25.0), (1.5, 85.0)]
    assert hourly(store, Rolled.ROWS, Statistic.TOTAL) == [(0.5, 150.0), (1.5, 510.0)]
    assert hourly(store, Rolled.ROWS, Statistic.LEAST) == [(0.5, 0.0), (1.5, 60.0)]
    assert hourly(store, Rolled.ROWS, Statistic.MOST) == [(0.5, 50.0), (1.5, 110.0)]
    assert hourly(store, Rolled.BATCHES, Statistic.TOTAL) == [(0.5, 6.0), (1.5, 6.0)]


def test_rolling_up_twice_changes_nothing(store: Store) -> None:
    store.batches.upsert_many(STREAM, [batch(number) for number in range(12)])
    store.measurements.add([memory(START, 5.0)])
    store.roll_up(START + DAY)
    before = store.measurements.hourly(STREAM, 0)
    assert before
    assert store.roll_up(START + DAY) == 0
    assert store.measurements.hourly(STREAM, 0) == before


def test_a_late_report_rolls_its_hour_up_again(store: Store) -> None:
    store.batches.upsert_progress(STREAM, batch(0, rows=10))
    store.batches.upsert_logged(STREAM, QUERY, 1, START + 600, START + 601)
    store.roll_up(START + DAY)
    assert hourly(store, Rolled.ROWS, Statistic.TOTAL) == [(0.5, 10.0)]
    store.batches.upsert_progress(STREAM, batch(1, rows=32))
    assert store.roll_up(START + DAY) == 1
    assert hourly(store, Rolled.ROWS, Statistic.TOTAL) == [(0.5, 42.0)]
    assert hourly(store, Rolled.BATCHES, Statistic.TOTAL) == [(0.5, 2.0)]


def test_a_batch_that_turns_out_to_belong_to_the_next_hour_leaves_the_first(store: Store) -> None:
    """It started at the end of one hour and was committed in the next."""
    store.batches.upsert_progress(STREAM, report(0, at=START + HOUR - 1))
    store.roll_up(START + DAY)
    assert hourly(store, Rolled.BATCHES) == [(0.5, 1.0)]
    store.batches.upsert_logged(STREAM, QUERY, 0, START + HOUR - 1, START + HOUR + 1)
    store.roll_up(START + DAY)
    assert hourly(store, Rolled.BATCHES) == [(1.5, 1.0)]


def test_hours_are_condensed_to_as_many_points_as_are_wanted(store: Store) -> None:
    """Four hours of two batches, then one hour of six, in points of two hours: each sample counts once."""
    few = [report(n, at=START + HOUR * (n // 2) + n % 2, rows=10) for n in range(8)]
    many = [report(8 + n, at=START + 4 * HOUR + n, rows=50) for n in range(6)]
    store.batches.upsert_many(STREAM, [*few, *many])
    store.roll_up(START + DAY)
    found = store.measurements.condensed(STREAM, [Rolled.ROWS], START, START + 5 * HOUR, 3)
    assert {(at - START) / HOUR: each[Rolled.ROWS] for at, each in found.items()} == {
        1.0: RolledUp(hours=2, samples=4, total=40.0),
        3.0: RolledUp(hours=2, samples=4, total=40.0),
        4.5: RolledUp(hours=1, samples=6, total=300.0),  # the range ends in the middle of a point
    }
    assert store.measurements.condensed("another", [Rolled.ROWS], START, START + DAY, 3) == {}
    single = store.measurements.condensed(STREAM, [Rolled.ROWS], START, START + 5 * HOUR, 240)
    assert [(at - START) / HOUR for at in single] == [0.5, 1.5, 2.5, 3.5, 4.5]


def test_a_stream_that_runs_an_hour_a_day_has_no_gaps_in_a_long_time(store: Store) -> None:
    """Some hours are read for each point, and they are hours in which it ran."""
    store.batches.upsert_many(STREAM, [report(n, at=START + DAY * n + 2 * HOUR, rows=10) for n in range(100)])
    store.roll_up(START + 101 * DAY)
    found = store.measurements.condensed(STREAM, [Rolled.ROWS], START, START + 100 * DAY, 40)
    assert len(found) == 40
    assert sum(each[Rolled.ROWS].hours for each in found.values()) == 100


def test_a_long_time_is_read_by_some_of_its_hours(store: Store) -> None:
    store.batches.upsert_many(STREAM, [report(n, at=START + HOUR * n, rows=10) for n in range(400)])
    store.roll_up(START + 400 * HOUR)
    found = store.measurements.condensed(STREAM, [Rolled.ROWS], START, START + 400 * HOUR, 20)
    assert len(found) == 20
    assert sum(each[Rolled.ROWS].hours for each in found.values()) == 80


def test_the_time_since_which_rows_are_kept_is_that_of_the_last_pruning(store: Store) -> None:
    assert store.measurements.kept_since() == 0.0
    store.prune(START + 8 * DAY + 60)
    assert store.measurements.kept_since() == START + DAY


def test_state_is_summed_over_operators_and_averaged_over_batches(store: Store) -> None:
    """Batches without a flush report 0 bytes of SST files: they are left out, not averaged in."""
    store.batches.upsert_many(
        STREAM,
        [
            batch(0, stateOperators=[operator(numRowsTotal=10, sst=1000), operator(numRowsTotal=5, sst=500)]),
            batch(1, stateOperators=[operator(numRowsTotal=20, sst=0), operator(numRowsTotal=5, sst=0)]),
        ],
    )
    store.roll_up(START + HOUR)
    assert hourly(store, Rolled.STATE_ROWS) == [(0.5, 20.0)]
    assert hourly(store, Rolled.STATE_SST) == [(0.5, 1500.0)]


def test_measurements_keep_their_name_and_source(store: Store) -> None:
    store.measurements.add([memory(START, 1.0), memory(START + 10, 3.0), memory(START + 10, 100.0, source="Spark")])
    store.measurements.add([memory(START, 1.0)])
    store.roll_up(START + HOUR)
    assert hourly(store, "resident_memory") == [(0.5, 2.0), (0.5, 100.0)]
    (one, other) = store.measurements.hourly(STREAM, START)
    assert (one.unit, one.source) == ("bytes", "/proc, mean of 2 in an hour")
    assert other.source == "Spark, mean of 1 in an hour"
    assert store.measurements.hourly(STREAM, START + HOUR) == ()


def test_the_roll_ups_of_one_name_are_read_without_the_others(store: Store) -> None:
    """An evaluation forecasts one number of each stream, however many are kept."""
    store.measurements.add([memory(START, 1.0), replace(memory(START, 2.0), name="another")])
    store.roll_up(START + HOUR)
    found = store.measurements.hourlies([STREAM], START, only=("another",))[STREAM]
    assert [(each.name, each.value) for each in found] == [("another", 2.0)]
    assert len(store.measurements.hourlies([STREAM], START)[STREAM]) == 2


def test_old_raw_rows_go_and_their_roll_ups_stay(store: Store) -> None:
    """Nobody rolled up before: pruning does it first."""
    hours = range(9 * 24)
    one_bad = {"input": {"read": 2, "malformed": 1}}
    store.batches.upsert_many(STREAM, [batch(number, every=HOUR, rows=2, observedMetrics=one_bad) for number in hours])
    store.measurements.add(memory(START + HOUR * number, 1.0) for number in hours)
    now = START + 9 * DAY
    pruned = store.prune(now)
    assert (pruned.batches, pruned.measurements, pruned.hourly) == (2 * 24, 2 * 24, 0)
    raw = store.batches.window(STREAM, limit=10_000)
    assert len(raw) == 7 * 24
    assert raw[0].progress is not None
    assert raw[0].progress.at == now - 7 * DAY
    assert len(store.batches.operators(STREAM, 0)) == 7 * 24
    assert hourly(store, Rolled.ROWS, Statistic.TOTAL) == [(number + 0.5, 2.0) for number in hours]
    total = store.batches.summary(STREAM)
    assert (total.batches, total.rows, total.malformed) == (9 * 24, 2 * 9 * 24, 9 * 24)


def test_pruning_twice_changes_nothing(store: Store) -> None:
    store.batches.upsert_many(STREAM, [batch(number, every=HOUR) for number in range(2 * 24)])
    store.prune(START + 8 * DAY)
    before = store.measurements.hourly(STREAM, 0), store.batches.summary(STREAM)
    nothing = Pruned(rolled_up=0, batches=0, measurements=0, verdict_changes=0, hourly=0, mutes=0)
    assert store.prune(START + 8 * DAY) == nothing
    assert (store.measurements.hourly(STREAM, 0), store.batches.summary(STREAM)) == before


@pytest.mark.parametrize("late", ["report", "log", "measurement"])
def test_what_comes_after_its_hour_was_pruned_is_not_counted_again(store: Store, late: str) -> None:
    """A spilled report is loaded after a week, or the logs of a slow query still name the batch."""
    store.batches.upsert_many(STREAM, [batch(number, rows=1) for number in range(6)])
    store.measurements.add([memory(START, 1.0)])
    store.prune(START + 8 * DAY)
    before = store.measurements.hourly(STREAM, 0), store.batches.summary(STREAM)
    if late == "report":
        store.batches.upsert_progress(STREAM, batch(3, rows=1))
    elif late == "log":
        store.batches.upsert_logged(STREAM, QUERY, 3, START + 1800, START + 1801)
    else:
        store.measurements.add([memory(START, 1.0)])
    store.prune(START + 8 * DAY)
    assert (store.measurements.hourly(STREAM, 0), store.batches.summary(STREAM)) == before


def test_totals_survive_pruning_after_pruning(store: Store) -> None:
    """A stream of ten days with a batch each six hours, pruned each day: nothing is lost or counted twice."""
    totals = []
    for day in range(10):
        numbers = range(4 * day, 4 * (day + 1))
        store.batches.upsert_many(STREAM, [batch(number, every=6 * HOUR, rows=3) for number in numbers])
        store.prune(START + (day + 1) * DAY, keep=2 * DAY)
        totals.append(store.batches.summary(STREAM).rows)
    assert totals == [3 * 4 * (day + 1) for day in range(10)]
    assert len(store.batches.window(STREAM)) == 4 * 2


def test_keeping_less_and_then_more_brings_nothing_back(store: Store) -> None:
    store.batches.upsert_many(STREAM, [batch(number, every=HOUR, rows=1) for number in range(24)])
    assert store.prune(START + DAY, keep=HOUR).batches == 23
    assert store.batches.summary(STREAM).batches == 24
    store.prune(START + DAY, keep=30 * DAY)
    store.batches.upsert_progress(STREAM, batch(0, rows=1))
    assert store.batches.summary(STREAM).batches == 24


def test_roll_ups_go_after_400_days(store: Store) -> None:
    store.batches.upsert_many(STREAM, [batch(0), report(1, at=START + 200 * DAY)])
    store.prune(START + 401 * DAY)
    assert hourly(store, Rolled.BATCHES) == [(200 * 24 + 0.5, 1.0)]


def test_changes_of_verdicts_go_and_the_newest_verdict_stays(store: Store) -> None:
    store.verdicts.save([Verdict(stream=STREAM, check="state_size", status=Status.OK, at=START)])
    assert store.prune(START + 8 * DAY).verdict_changes == 1
    assert store.verdicts.changes(STREAM, 0) == ()
    assert len(store.verdicts.latest(STREAM)) == 1
