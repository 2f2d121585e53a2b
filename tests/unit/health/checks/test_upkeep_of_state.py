"""Snapshot lag, versions kept, savepoint overdue: when each alarms, and what it does not know."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.formats.state import state_stores
from streamwarden.health.checks.state import savepoint_overdue, snapshot_lag, versions_kept
from streamwarden.health.signals.saved import NewestSavepoint, newest_savepoint
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import DeclaredInput, StateInstance, Window
from streamwarden.lifecycle.savepoints.savepoint import MANIFEST
from streamwarden.schedules import interval_at
from streamwarden.services.monitoring.probe import probe
from streamwarden.stream.savepoints import SavepointsSpec
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import Backend, StateSpec
from support.checkpoints.recorded import Unpack, stream_of
from support.streams.health_windows import NOW, judge, log, report, spec, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN
DAY = 86400.0
QUERY = str(log(0, 0).query_id)


def store(snapshot: int | None, version: int, partition: int = 0, kept_since: int | None = 1) -> StateInstance:
    return StateInstance(operator=0, partition=partition, snapshot=snapshot, version=version, kept_since=kept_since)


def uploads(*stores: StateInstance, conf: dict[str, str] | None = None, **changes: Any) -> Window:
    """A batch each 10 s. As a driver is started, two uploads are at most 5 + 1 + 1 versions apart."""
    settings = spec(spark=SparkSpec(master="local[2]", conf=conf or {}), **changes)
    reports = [report(batch, NOW - 10 * (9 - batch)) for batch in range(10)]
    return window(reports, spec=settings, state=stores, driver_alive=True)


@pytest.mark.parametrize(
    ("lag", "conf", "status"),
    [
        (7, {}, OK),
        (20, {}, OK),
        (21, {}, WARNING),
        (70, {}, WARNING),
        (71, {}, CRITICAL),
        (71, {"spark.sql.streaming.stateStore.minDeltasForSnapshot": "100"}, OK),
        (71, {"spark.sql.streaming.stateStore.maintenanceInterval": "10m"}, OK),
        (71, {"spark.sql.streaming.stateStore.maintenanceInterval": "60s"}, WARNING),
    ],
)
def test_the_worst_partition_counts_against_what_the_settings_allow(
    lag: int, conf: dict[str, str], status: Status
) -> None:
    seen = uploads(store(199, 200), store(200 - lag, 200, partition=3), conf=conf)
    verdict = judge(snapshot_lag.CHECK, seen)
    assert verdict.status is status, verdict.reason
    assert "partition 3 of operator 0" in verdict.reason
    assert verdict.evidence["partition 3 of operator 0 versions"] == lag


def test_a_state_that_was_never_uploaded_lags_by_all_of_its_versions() -> None:
    verdict = judge(snapshot_lag.CHECK, uploads(store(None, 60)))
    assert "60 versions without an uploaded snapshot" in verdict.reason
    assert verdict.value == pytest.approx(60 / 7, abs=1e-5)


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (uploads(store(None, 900), state=StateSpec(changelog=False)), OK),
        (uploads(store(890, 900), state=StateSpec(backend=Backend.HDFS)), OK),
        (window([report(0, operators=0)], state=(store(None, 900),)), OK),
        (window([report(0), report(1)], state=(store(None, 900),)), UNKNOWN),
        (uploads(), OK),
        (window([report(0)], state=(store(None, 900),)), UNKNOWN),
    ],
)
def test_where_no_upload_is_due_nothing_lags(seen: Window, status: Status) -> None:
    assert judge(snapshot_lag.CHECK, seen).status is status


def kept(
    first: int, newest: int, *, since: int | None = 1, retain: int = 100, before: Verdict | None = None, hole: int = 0
) -> Verdict:
    """Both logs have the batches from `first` on, without `hole`; the state is kept since this version."""
    logged = frozenset(set(range(first, newest + 1)) - ({hole} if hole else set()))
    conf = {"spark.sql.streaming.minBatchesToRetain": str(retain)}
    seen = window(
        spec=spec(spark=SparkSpec(master="local[2]", conf=conf)),
        state=(store(newest, newest + 1, kept_since=since), store(newest, newest + 1, kept_since=1)),
        readings={versions_kept.LOGGED: logged},
        log=log(newest, newest),
        previous={} if before is None else {versions_kept.CHECK.name: before},
    )
    return judge(versions_kept.CHECK, seen)


@pytest.mark.parametrize(
    ("verdict", "status", "count"),
    [
        (kept(400, 500), OK, 101),
        (kept(0, 30), OK, 31),
        (kept(400, 500, since=402), OK, 100),
        (kept(400, 500, since=440), WARNING, 62),
        (kept(400, 500, since=496), CRITICAL, 6),
        (kept(400, 500, since=None), CRITICAL, 0),
        (kept(400, 500, hole=450), WARNING, 50),
        (kept(490, 500), OK, 11),
    ],
)
def test_the_batches_that_can_be_opened_are_counted(verdict: Verdict, status: Status, count: int) -> None:
    assert (verdict.status, verdict.evidence["kept"]) == (status, count), verdict.reason


def test_what_grows_after_the_setting_was_raised_is_ok_and_what_is_trimmed_is_not() -> None:
    whole = kept(400, 500)
    raised = kept(400, 510, retain=1000, before=whole)
    assert (raised.status, raised.evidence["filling"]) == (OK, True)
    grown = kept(400, 600, retain=1000, before=raised)
    assert grown.status is OK
    trimmed = kept(510, 610, retain=1000, before=grown)
    assert trimmed.status is WARNING, "the oldest batch moved: something keeps fewer than was promised"
    assert kept(510, 610, retain=1000, before=trimmed).status is WARNING, "also while no batch is committed"
    assert kept(510, 1600, retain=1000, before=trimmed).status is OK
    assert judge(versions_kept.CHECK, window()).status is UNKNOWN


@pytest.mark.parametrize("name", ["spark-4.3.0-changelog", "spark-4.3.0-rocksdb", "spark-4.3.0-hdfs"])
def test_of_a_real_checkpoint_each_batch_is_kept_until_a_file_is_gone(
    name: str, unpack: Unpack, tmp_path: Path
) -> None:
    unpack(name, tmp_path)
    newest = log_position(open_path(tmp_path / "checkpoint")).committed
    assert newest is not None
    (store, *_) = state_stores(open_path(tmp_path / "checkpoint"))
    hole = [(newest - 2, 3)] if name == "spark-4.3.0-rocksdb" else []  # the others load later versions through it
    for lost, count in [(None, newest + 1), *hole, (newest + 1, 0)]:
        for file in store.files:
            if file.version == lost:
                (tmp_path / "checkpoint" / store.folder / file.name).unlink()
        probed = probe(stream_of(tmp_path, files=0))
        verdict = judge(versions_kept.CHECK, window(state=probed.state, readings=probed.readings, log=probed.log))
        assert verdict.evidence["kept"] == count, (lost, verdict.reason)


def overdue(
    newest: NewestSavepoint | None, *, committed: int | None = 500, before: Verdict | None = None, **changes: Any
) -> Verdict:
    settings = spec(savepoints=SavepointsSpec(**{"schedule": "0 2 * * *", **changes}))
    seen = window(
        spec=settings,
        log=log(committed, committed),
        readings={savepoint_overdue.NEWEST: newest},
        previous={} if before is None else {savepoint_overdue.CHECK.name: before},
    )
    return judge(savepoint_overdue.CHECK, seen)


def taken(days: float, batch: int = 400, query: str = QUERY, interval: float = DAY) -> NewestSavepoint:
    at = NOW - days * DAY
    return NewestSavepoint(id="20270101T020000Z", query_id=query, batch=batch, taken_at=at, interval=interval)


@pytest.mark.parametrize(
    ("schedule", "hours"), [("0 2 * * *", 24), ("*/15 * * * *", 0.25), ("@weekly", 168), ("0 2 * * 1-5", 24)]
)
def test_the_interval_is_that_of_the_schedule(schedule: str, hours: float) -> None:
    monday = datetime(2026, 11, 23, 12, 0, tzinfo=UTC).timestamp()
    assert interval_at(schedule, monday) == hours * 3600


def test_over_a_weekend_without_a_date_the_interval_is_longer() -> None:
    saturday = datetime(2026, 11, 28, 12, 0, tzinfo=UTC).timestamp()
    assert interval_at("0 2 * * 1-5", saturday) == 72 * 3600


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (overdue(taken(0.5)), OK),
        (overdue(taken(1.2)), OK),
        (overdue(taken(1.25)), WARNING),
        (overdue(taken(3.0)), WARNING),
        (overdue(taken(3.1)), CRITICAL),
        (overdue(taken(30, batch=500)), OK),
        (overdue(taken(0.2, interval=3600)), CRITICAL),
        (overdue(taken(6, interval=7 * DAY)), OK),
        (overdue(taken(30), schedule=None), OK),
        (overdue(None), UNKNOWN),
        (overdue(taken(30), committed=None), UNKNOWN),
        (overdue(NewestSavepoint()), UNKNOWN),
    ],
)
def test_a_savepoint_is_overdue_by_the_interval_of_its_schedule(verdict: Verdict, status: Status) -> None:
    assert verdict.status is status, verdict.reason


@pytest.mark.parametrize("newest", [NewestSavepoint(), taken(0.1, query="another")])
def test_without_a_savepoint_of_this_query_its_age_runs_from_when_that_was_seen(newest: NewestSavepoint) -> None:
    """The stream never had one, or began anew: nothing can be restored, so it is never OK."""
    first = overdue(newest)
    assert (first.status, first.evidence["since"]) == (UNKNOWN, NOW)
    later = replace(first, evidence={**first.evidence, "since": NOW - 2 * DAY})
    assert overdue(newest, before=later).status is WARNING
    assert overdue(newest, before=replace(later, evidence={**later.evidence, "query_id": "older"})).status is UNKNOWN


def test_the_newest_savepoint_is_the_newest_whose_manifest_can_be_read(tmp_path: Path) -> None:
    """What an interrupted or failed one left is named."""
    root = open_path(tmp_path)
    assert newest_savepoint(open_path(tmp_path / "none"), lambda at: 60.0) == NewestSavepoint(interval=60.0)
    for name, text in (
        ("20270101T020000Z", json.dumps({"query_id": "q", "batch": 7, "taken_at": "2027-01-01T02:00:05+00:00"})),
        ("20270102T020000Z", "{"),
        ("20270103T020000Z", None),
        ("notes", "{}"),
    ):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / MANIFEST).write_text(text)
    found = newest_savepoint(root, lambda at: 86400.0)
    at = datetime(2027, 1, 1, 2, 0, 5, tzinfo=UTC).timestamp()
    assert found == NewestSavepoint(
        id="20270101T020000Z", query_id="q", batch=7, taken_at=at, left=("20270103T020000Z", "20270102T020000Z")
    )
    assert "newer and no savepoint: 20270103T020000Z" in overdue(replace(found, query_id=QUERY)).reason
    assert savepoint_overdue.NEWEST.read(root, DeclaredInput(folders=(), recursive=bool)) is None
