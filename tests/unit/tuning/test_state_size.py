"""S = N_keys x (S_key + S_value_avg) x F_versioning, on both backends, and what its terms are made of."""

import pytest

from streamwarden.stream.spec import Backend, StateSpec
from streamwarden.tuning.layers import Change, Content, content, files_of_snapshots
from streamwarden.tuning.recommendation import Decision
from streamwarden.tuning.state_size import SizeEstimate, advise, predict
from support.streams.health_windows import spec
from support.streams.tuning import batch, files, history

HDFS = spec(state=StateSpec(backend=Backend.HDFS))


def predicted(found: SizeEstimate | str) -> SizeEstimate:
    assert isinstance(found, SizeEstimate), found
    return found


def grown(count: int, *, backend: str = "rocksdb", rows: int = 100_000, memory: int = 30_000_000) -> list:
    """Batches that each add the same number of rows, then update a twentieth of them."""
    fills = 5
    reports = []
    for number in range(count):
        total = rows * min(number + 1, fills) // fills
        touched = rows // fills if number < fills else rows // 20
        state = {"numRowsTotal": total, "numRowsUpdated": touched, "numRowsRemoved": 0, "memoryUsedBytes": memory}
        reports.append(batch(number, backend=backend, **state))
    return reports


def test_the_size_is_the_product_of_its_terms_and_each_says_where_it_is_from() -> None:
    found = predicted(predict(history(grown(25))))
    assert (found.rows, found.key, found.value) == (100_000, 16, 56)
    assert found.size == pytest.approx(100_000 * 72 * found.versioning)
    advice = advise(history(grown(25)))
    assert advice.status is Decision.KEEP
    assert [each.name for each in advice.numbers] == [
        "N_keys", "S_key", "S_value_avg", "F_versioning", "S predicted", "S measured", "error",
    ]  # fmt: skip
    assert all(each.source for each in advice.numbers)


def test_rocksdb_on_disk_is_the_snapshots_copies_and_the_changelogs() -> None:
    """2.4 copies: five fills, three flushes of the changed rows; 1.95 changes a row in 24 changelogs."""
    found = predicted(predict(history(grown(24))))
    changed = 100_000 + 19 * 5_000
    one_copy, one_change = 0.3 * 72 + 9, 0.3 * 80
    distinct = 100_000 * (1 - 2.718281828 ** (-0.25))
    kept = (100_000 + 3 * distinct) * one_copy + changed * one_change + 16 * 4_000
    assert found.size == pytest.approx(kept, rel=1e-6)
    assert found.measured == 4_000_000


def test_hdfs_in_memory_is_rows_shared_by_two_maps() -> None:
    """Measured with Spark 4.3.0 on this layout: 30.0 MB for 100,000 rows, 285 MB for a million."""
    found = predicted(predict(history(grown(25, backend="hdfs"), HDFS)))
    assert found.size == pytest.approx(30e6, rel=0.2)
    assert found.versioning == pytest.approx(3.8, abs=0.1)
    assert found.error == pytest.approx(100 * (found.size / 30e6 - 1))
    million = predicted(predict(history(grown(25, backend="hdfs", rows=1_000_000, memory=285_000_000), HDFS)))
    assert million.error == pytest.approx(0, abs=20)


def test_the_measured_memory_is_the_median_of_the_newest_reports() -> None:
    """Spark's estimate jumps when a map grows."""
    reports = grown(25, backend="hdfs")
    reports[-1] = batch(24, backend="hdfs", numRowsTotal=100_000, memoryUsedBytes=90_000_000)
    assert predicted(predict(history(reports, HDFS))).measured == 30_000_000


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (history(grown(4)), "too little history: 4 batches"),
        (history(grown(25), files=None, problems=("no such folder",)), "could not be read: no such folder"),
        (history(grown(25), files=files(rows=0)), "no changelog"),
        (history([batch(n, numRowsTotal=0) for n in range(9)]), "the state is empty"),
        (history(grown(25), spec(state=StateSpec(backend="com.example.Provider"))), "a custom provider"),
    ],
)
def test_nothing_is_predicted_from_nothing(found, why) -> None:
    advice = advise(found)
    assert advice.status is Decision.UNKNOWN
    assert why in advice.says
    assert advice.settings == {}


def test_where_versions_are_nearly_all_no_number_is_given_for_a_row() -> None:
    """Some hundred open windows, thousands of changes a batch."""
    reports = [batch(n, numRowsTotal=100, numRowsUpdated=5_000, numRowsRemoved=5_000) for n in range(25)]
    assert "kept versions of rows that changed" in advise(history(reports)).says


def change(version: int, total: int, new: int = 0, updated: int = 0, removed: int = 0) -> Change:
    return Change(version=version, total=total, new=new, updated=updated, removed=removed)


def kept(start: int, changes: list[Change], snapshots: tuple[int, ...]) -> Content:
    return content(files_of_snapshots(start, changes, snapshots).values())


def test_snapshot_flushes_the_rows_since_the_previous_one() -> None:
    assert kept(0, [change(1, 10, 10), change(2, 20, 10), change(3, 30, 10)], (2, 3)) == Content(30, 0)


def test_four_flushed_files_are_merged_into_one_copy_that_the_next_snapshot_holds() -> None:
    """10 + 10 + 10 + 10 flushed, a copy of these 40, and the last 10: each is kept by one of the snapshots."""
    changes = [change(version, 10 * version, 10) for version in range(1, 6)]
    assert kept(0, changes, (1, 2, 3, 4, 5)).rows == 40 + 40 + 10


def test_only_files_that_a_kept_snapshot_names_are_there() -> None:
    changes = [change(version, 10 * version, 10) for version in range(1, 6)]
    assert kept(0, changes, (3,)).rows == 30
    assert kept(0, changes, (4, 5)).rows == 40 + 40 + 10


def test_rows_from_before_the_history_are_one_copy() -> None:
    assert kept(100, [change(7, 100, updated=0)], (7,)).rows == 100
    assert kept(100, [], ()) == Content(0, 0)


def test_a_removed_row_leaves_a_tombstone_until_the_next_merge() -> None:
    """Windows that close: each batch opens ten and removes those of the batch before."""
    changes = [change(version, 10, 10, removed=10) for version in range(1, 6)]
    files = files_of_snapshots(10, changes, (1, 2, 3, 4, 5))
    assert content([files[4]]) == Content(10 + 40, 40)
    assert content([files[5]]) == Content(10 + 10, 10), "one copy of the rows, and the newest flush"


def test_a_removal_is_a_key_without_a_value_in_the_changelogs() -> None:
    """Half of the changes of a stream of windows are removals: to count them as rows made it 69 % too large."""
    swap = {"numRowsTotal": 1000, "numRowsUpdated": 1000, "numRowsRemoved": 1000, "memoryUsedBytes": 1}
    found = predicted(predict(history([batch(n, **swap) for n in range(25)], files=files(snapshots=((),) * 4))))
    one_key, one_row = 0.3 * (16 + 8), 0.3 * (72 + 8)
    assert found.size == pytest.approx(24_000 * (one_row + one_key), rel=0.01)


def test_row_size_is_taken_from_the_snapshots() -> None:
    """Keys that are alike compress well in sorted files. The changelogs, which are not sorted, do not show that."""
    measured = {5: 25_000 * 12.0, 10: 25_000 * 12.0}
    found = predicted(predict(history(grown(24), files=files(snapshot_bytes=measured))))
    guessed = predicted(predict(history(grown(24))))
    assert "median of 2 snapshots" in found.how
    assert "from the changelogs' compression" in guessed.how
    assert found.size < guessed.size
