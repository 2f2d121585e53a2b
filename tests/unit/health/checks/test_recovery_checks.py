"""Restart loop, replay debt and partition skew: what a crash costs and who keeps crashing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.health.checks.driver import restart_loop
from streamwarden.health.checks.state import partition_skew, replay_debt
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import StateInstance, Window
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.stream.spec import Backend, StateSpec
from support.streams.health_windows import NOW, driver, ended, judge, report, spec, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN


def deaths(count: int, kind: ExitKind = ExitKind.KILLED, *, last: float = 60.0) -> tuple[DriverRecord, ...]:
    """`count` drivers that ended five minutes apart, the last one `last` seconds ago, and one that lives."""
    ends = [NOW - last - 300 * n for n in reversed(range(count))]
    gone = tuple(driver(n, at - 200, exit=ended(kind, at)) for n, at in enumerate(ends))
    return (*gone, driver(99, NOW - last + 30))


class TestRestartLoop:
    @pytest.mark.parametrize("kind", [ExitKind.KILLED, ExitKind.FAILED])
    @pytest.mark.parametrize(
        ("count", "status"), [(0, OK), (1, OK), (2, WARNING), (4, WARNING), (5, CRITICAL), (9, CRITICAL)]
    )
    def test_boundaries(self, count: int, status: Status, kind: ExitKind) -> None:
        """Two deaths an hour are WARNING, four still are; the fifth exhausts the restart budget."""
        verdict = judge(restart_loop.CHECK, window(drivers=deaths(count, kind), driver_alive=True))
        assert (verdict.status, verdict.value) == (status, count)

    @pytest.mark.parametrize("kind", [ExitKind.STOPPED, ExitKind.COMPLETED, ExitKind.FENCED])
    def test_ends_in_good_order_do_not_count(self, kind: ExitKind) -> None:
        assert judge(restart_loop.CHECK, window(drivers=deaths(9, kind), driver_alive=True)).value == 0

    def test_deaths_of_more_than_an_hour_ago_are_forgotten(self) -> None:
        exactly = judge(restart_loop.CHECK, window(drivers=deaths(1, last=3_600), driver_alive=True))
        older = judge(restart_loop.CHECK, window(drivers=deaths(1, last=3_601), driver_alive=True))
        assert (exactly.value, older.value) == (1, 0)

    def test_a_driver_that_vanished_counts(self) -> None:
        """No exit was recorded, and it is not the newest any more, or it is and does not live."""
        replaced = (driver(1, NOW - 900), driver(2, NOW - 60))
        assert judge(restart_loop.CHECK, window(drivers=replaced, driver_alive=True)).value == 1
        assert judge(restart_loop.CHECK, window(drivers=replaced, driver_alive=False)).value == 2
        assert judge(restart_loop.CHECK, window(drivers=replaced, driver_alive=None)).value == 1

    def test_an_end_that_no_restart_cures_is_critical_at_once(self) -> None:
        gone = ended(
            ExitKind.FAILED, NOW - 9e4, curable=False, error_class="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
            next_step="use a new checkpoint",
        )  # fmt: skip
        verdict = judge(restart_loop.CHECK, window(drivers=(driver(1, NOW - 1e5, exit=gone),), driver_alive=False))
        assert verdict.status is CRITICAL
        assert "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE" in verdict.reason
        assert "use a new checkpoint" in verdict.reason

    def test_it_is_critical_until_people_want_the_stream_stopped(self) -> None:
        gone = driver(1, NOW - 1e5, exit=ended(ExitKind.FAILED, NOW - 9e4, curable=False))
        mine = window(drivers=(gone,), driver_alive=False, wanted_stopped=True)
        assert judge(restart_loop.CHECK, mine).status is OK


def instances(*snapshots: int | None, version: int = 21, size: int = 10) -> tuple[StateInstance, ...]:
    return tuple(
        StateInstance(operator=0, partition=n, snapshot=at, version=version, size=size)
        for n, at in enumerate(snapshots)
    )


def changing(rows: int, count: int = 20, **changes: object) -> Window:
    """`count` batches of 1 s that update and remove `rows` rows together; no bytes to copy."""
    reports = [
        report(
            n,
            top={"batchDuration": 1_000},
            operator={"numRowsUpdated": rows - rows // 3, "numRowsRemoved": rows // 3, "memoryUsedBytes": 0},
            custom={
                "rocksdbSstFileSize": 0, **{f"SnapshotLastUploaded.partition_{p}_default": 10 for p in range(4)}
            },
        )
        for n in range(count)
    ]  # fmt: skip
    up = driver(1, NOW - 500, started_at=NOW - 490)
    return window(reports, drivers=(up,), driver_alive=True, **changes)


class TestReplayDebt:
    @pytest.mark.parametrize(
        ("total", "status"),
        [(0, OK), (2_499_990, OK), (2_500_000, WARNING), (12_500_000, WARNING), (12_500_010, CRITICAL)],
    )
    def test_predicted_time_is_judged(self, total: int, status: Status) -> None:
        """Rows x 24 us: 60 s are reached at 2,500,000 rows, 300 s at 12,500,000."""
        verdict = judge(replay_debt.CHECK, changing(total // 10, state=instances(10, 10, 10, 10)))
        assert verdict.status is status
        assert verdict.value == pytest.approx(total * 24e-6)
        assert verdict.evidence["rows_changed"] == total

    def test_what_every_start_costs_is_no_debt(self) -> None:
        """A driver that takes ten minutes to start, and batches of five minutes, with nothing to replay."""
        slow = [
            report(
                n,
                top={"batchDuration": 300_000},
                operator={"memoryUsedBytes": 0},
                custom={"rocksdbSstFileSize": 0},
            )
            for n in range(20)
        ]
        mine = window(slow, drivers=(driver(1, NOW - 900, started_at=NOW - 300),), state=instances(20))
        assert (judge(replay_debt.CHECK, mine).status, judge(replay_debt.CHECK, mine).value) == (OK, 0)

    def test_it_is_silent_for_a_stream_that_has_read_all_its_input(self) -> None:
        indebted = changing(2_000_000, state=instances(10))
        assert judge(replay_debt.CHECK, indebted).status is CRITICAL
        for kind, status in ((ExitKind.COMPLETED, OK), (ExitKind.STOPPED, OK), (ExitKind.KILLED, CRITICAL)):
            done = (driver(1, NOW - 500, exit=ended(kind, NOW - 50)),)
            mine = replace(indebted, drivers=done, driver_alive=False)
            assert judge(replay_debt.CHECK, mine).status is status

    def test_the_oldest_of_the_partitions_snapshots_counts(self) -> None:
        """Three partitions uploaded version 20, one is at 5: fifteen batches, 5..19, must be replayed."""
        verdict = judge(replay_debt.CHECK, changing(300, state=instances(20, 20, 5, 20)))
        assert (verdict.evidence["snapshot_version"], verdict.evidence["batches"]) == (5, 15)
        assert verdict.evidence["rows_changed"] == 15 * 300

    def test_a_stream_that_never_uploaded_replays_everything(self) -> None:
        verdict = judge(replay_debt.CHECK, changing(300, state=instances(None, None)))
        assert verdict.evidence["rows_changed"] == 20 * 300
        assert "no snapshot was ever uploaded" in verdict.reason

    def test_a_crash_loop_lengthens_its_own_recovery(self) -> None:
        """Lives of three batches that never reach a maintenance: each evaluation predicts a longer restart."""
        predicted = [
            judge(replay_debt.CHECK, changing(200_000, count, state=instances(None))).value for count in (3, 6, 9, 12)
        ]
        assert predicted == sorted(predicted)
        assert predicted[-1] == pytest.approx(predicted[0] + 9 * 200_000 * 24e-6)

    def test_without_the_checkpoint_snapshots_are_taken_from_reports(self) -> None:
        verdict = judge(replay_debt.CHECK, changing(300))
        assert (verdict.evidence["snapshot_version"], verdict.evidence["rows_changed"]) == (10, 3_000)

    def test_minus_one_in_the_reports_is_no_answer(self) -> None:
        """A driver that has uploaded none in this life says -1, whatever earlier ones uploaded."""
        custom = {f"SnapshotLastUploaded.partition_{p}_default": -1 for p in range(4)}
        assert judge(replay_debt.CHECK, window(report(n, custom=custom) for n in range(5))).status is UNKNOWN

    def test_batches_older_than_the_window_count_as_the_mean_one(self) -> None:
        """The snapshot is at version 10 and the window begins with batch 15: 5 of 10 batches are estimated."""
        full = changing(300)
        short = window(batches=full.batches[15:], drivers=full.drivers, state=instances(10))
        verdict = judge(replay_debt.CHECK, short)
        assert (verdict.evidence["batches_estimated"], verdict.evidence["rows_changed"]) == (5, 3_000)

    def test_hdfs_state_replays_ten_times_faster(self) -> None:
        hdfs = spec(state=StateSpec(backend=Backend.HDFS))
        verdict = judge(replay_debt.CHECK, changing(1_000_000, state=instances(10), spec=hdfs))
        assert verdict.value == pytest.approx(10_000_000 * 2.4e-6)

    def test_rocksdb_without_changelog_has_no_debt(self) -> None:
        plain = spec(state=StateSpec(changelog=False))
        assert judge(replay_debt.CHECK, changing(1_000_000, spec=plain)).evidence["rows_changed"] == 0


class TestPartitionSkew:
    def _skew(self, *sizes: int) -> Verdict:
        state = tuple(
            StateInstance(operator=0, partition=n, snapshot=1, version=1, size=size) for n, size in enumerate(sizes)
        )
        return judge(partition_skew.CHECK, window(state=state))

    @pytest.mark.parametrize(
        ("fullest", "status"),
        [(100, OK), (299, OK), (300, WARNING), (1_000, WARNING), (1_001, CRITICAL)],
    )
    def test_boundaries(self, fullest: int, status: Status) -> None:
        """Three partitions of 100 MB and one of `fullest` MB: three times as full is WARNING, above ten CRITICAL."""
        assert self._skew(10**8, fullest * 10**6, 10**8, 10**8).status is status

    def test_skew_of_a_small_state_costs_nothing(self) -> None:
        assert self._skew(1_000, 63_999_999, 1_000, 1_000).status is OK
        assert self._skew(1_000, 64_000_000, 1_000, 1_000).status is CRITICAL

    def test_a_single_partition_has_no_sisters(self) -> None:
        assert self._skew(10**9).status is OK
