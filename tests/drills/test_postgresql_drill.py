"""Drills of a stream that writes into a real PostgreSQL.

Its driver is killed between the database's commit and Spark's, with a sink without its guard (the same with the guard:
test_kafka_to_postgresql_drill.py); it stands still until another driver has taken over; and the server is down, for
less than the sink waits for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.connections import variable
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.drills.state import RunState
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.driver_folder import read_outcome
from streamwarden.services.replay.replay import replay
from support.oracles.sink_tables import Base
from support.servers.postgres_server import running
from support.spark.drill_project import drill_project, run_drill

pytestmark = pytest.mark.spark

RECORDS = 8_000
FEW = 12_000
TABLE = "{{kind: postgresql, connection: warehouse, table: flights.departures{}}}"
GROUPED = ("window_start", "origin", "carrier")
KEY = ", key: [window_start, origin, carrier]"


@pytest.fixture(scope="module")
def base() -> Iterator[Base]:
    with running() as server:
        yield Base(server, "warehouse")


@pytest.fixture(autouse=True)
def warehouse(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable("warehouse"), base.server.connection(base.name))


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """42 files with more than RECORDS flights."""
    folder = tmp_path_factory.mktemp("flights")
    replay(folder, rows_per_file=200, limit=RECORDS + 400)
    return folder


def assert_exactly_once(run: DrillRun, records: int) -> None:
    assert run.passed, run.reason
    counts = run.facts["reconciliation"]
    assert counts["records"] >= records
    assert counts["expected"] == counts["actual"] > records / 10
    assert counts["exactly_once"]
    assert run.facts["judgement"]["success"]


@pytest.mark.full  # in the first tier test_script_drill has a batch that is appended twice, by a function
def test_the_same_sink_without_its_guard_doubles_the_batch_and_is_caught(tmp_path: Path) -> None:
    replay(tmp_path / "flights", rows_per_file=400, limit=FEW)
    with drill_project(
        tmp_path,
        inputs=tmp_path / "flights",
        fault="kill_after_database_commit",
        attempts=3,
        job="writes_unguarded",
        min_records=FEW - 2000,
        sink=TABLE.format(""),
        oracle="auto",
    ) as workspace:
        run = run_drill(workspace)
        assert verdict_word(run) == "DEVIATED", run.reason
        counts = run.facts["reconciliation"]
        assert counts["duplicated"] > 0
        assert (counts["lost"], counts["unexpected"], counts["wrong"]) == (0, 0, 0)
        assert f"{counts['duplicated']:,} duplicated" in run.reason
        assert not run.facts["judgement"]["success"]
        twin = run.facts["twin"]
        assert (twin["key"], twin["outcome"]["duplicated"]) == (list(GROUPED), counts["duplicated"])
        removed = [name for name in run.facts["healing"]["removed"] if name.startswith("the schema ")]
        assert len(removed) == twin["twins"] + 1, "the fork's, and one for each twin"


@pytest.mark.full  # in the first tier spark/storage/test_postgresql_sink_run has a driver that a newer one has fenced
def test_a_driver_that_goes_on_after_it_was_replaced_adds_no_row(tmp_path: Path, base: Base) -> None:
    """The ledger of the table has the batch of its successor, with the larger fencing token."""
    replay(tmp_path / "flights", rows_per_file=250, limit=6_000)
    with drill_project(
        tmp_path,
        inputs=tmp_path / "flights",
        fault="freeze_driver",
        batches=8,
        min_records=6_000,
        sink=TABLE.format(KEY),
    ) as workspace:
        run = run_drill(workspace)
        assert_exactly_once(run, 6_000)
        proof = run.facts["fault"]
        outcome = read_outcome(Path(workspace.store.drivers.get(proof["driver_id"]).folder))
    seen = proof["evidence"]
    assert seen["stood_still"]
    assert seen["redone"]
    assert seen["successor"]["driver_id"] == run.facts["recovery"]["driver_id"] != proof["driver_id"]
    assert seen["successor"]["token"] > seen["token"]
    assert outcome is not None
    assert outcome.kind is ExitKind.FENCED


def test_a_database_that_is_down_and_then_a_table_that_is_locked_are_waited_for_and_nothing_is_lost(
    tmp_path: Path, flights: Path, base: Base
) -> None:
    """The driver that was in the middle of a batch writes it when the server is back, and when the table is free."""
    down, up = base.server.commands()
    outage = json.dumps({"service": "sink", "down": down, "up": up, "lasts": "4s"})
    with drill_project(
        tmp_path,
        inputs=flights,
        faults=f"faults: [{{kind: service_outage, attempts: 2, outage: {outage}}}, {{kind: sink_locked, lasts: 4s}}]",
        sink=TABLE.format(KEY),
        batches=14,
        min_records=RECORDS,
    ) as workspace:
        run = run_drill(workspace)
        drivers = workspace.store.drivers.history(run.facts["fork"]["stream"], 0.0)
    assert_exactly_once(run, RECORDS)
    of_outage, of_lock = RunState.of(run).results
    assert of_outage.landed
    assert of_lock.landed
    seen, waited = of_outage.landed.evidence, of_lock.landed.evidence
    assert f"127.0.0.1:{base.server.port}" in seen["service"]
    assert seen["hung"]
    assert seen["back_at"] - seen["gone_at"] >= 4
    if seen["back_at"] - seen["gone_at"] < 10:  # the sink waits for 15 s; the outage lasts two usual batches
        assert [driver.driver_id for driver in drivers] == [of_outage.landed.driver_id], "it lived on"
        assert not of_outage.recovery.restarted
    assert waited["waited_seconds"] >= 4
    assert waited["sessions"]
    assert waited["committed"] == waited["committed_before"]
