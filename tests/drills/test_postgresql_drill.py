"""The drill between the database's commit and Spark's, on a real PostgreSQL; and the same sink without its guard."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.connections import variable
from streamwarden.adapters.replay import replay
from streamwarden.drills.report import verdict_word
from streamwarden.drills.spec import FaultKind
from streamwarden.lifecycle.fork_spec import SCHEMA
from support.drill_project import drill_project, run_drill
from support.postgres_server import running
from support.sink_tables import Base

pytestmark = pytest.mark.spark

RECORDS = 100_000
FEW = 12_000
TABLE = "{{kind: postgresql, connection: warehouse, table: flights.departures{}}}"
KEY = ", key: [window_start, origin, carrier]"


@pytest.fixture(scope="module")
def base() -> Iterator[Base]:
    with running() as server:
        yield Base(server, "warehouse")


@pytest.fixture(autouse=True)
def warehouse(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable("warehouse"), base.server.connection(base.name))


def test_a_driver_killed_between_the_two_commits_writes_nothing_twice(tmp_path: Path, base: Base) -> None:
    replay(tmp_path / "flights", rows_per_file=2500, limit=RECORDS + 2500)
    with drill_project(
        tmp_path,
        inputs=tmp_path / "flights",
        fault=FaultKind.KILL_AFTER_DATABASE_COMMIT,
        attempts=3,
        sink=TABLE.format(KEY),
    ) as workspace:
        run = run_drill(workspace)
        assert run.passed, run.reason
        proof, counts = run.facts["fault"], run.facts["reconciliation"]
        assert proof["evidence"]["signal"] == signal.SIGKILL
        assert proof["evidence"]["database_batch"] == proof["planned"] == proof["committed"] + 1
        assert counts["records"] >= RECORDS
        assert counts["expected"] == counts["actual"] > 10_000
        assert counts["exactly_once"]
        assert run.facts["judgement"]["success"]
        assert any(SCHEMA in each for each in run.facts["heal"]["removed"])
    left = base.ask(f"SELECT nspname FROM pg_namespace WHERE nspname = 'flights' OR nspname LIKE '{SCHEMA}%'")
    assert left == [], "neither the fork's schema, nor one for the stream, which never ran"


def test_the_same_sink_without_its_guard_doubles_the_batch_and_is_caught(tmp_path: Path) -> None:
    replay(tmp_path / "flights", rows_per_file=500, limit=FEW)
    with drill_project(
        tmp_path,
        inputs=tmp_path / "flights",
        fault=FaultKind.KILL_AFTER_DATABASE_COMMIT,
        attempts=3,
        job="writes_unguarded",
        batches=12,
        min_records=FEW - 2000,
        sink=TABLE.format(""),
    ) as workspace:
        run = run_drill(workspace)
        assert verdict_word(run) == "DEVIATED", run.reason
        counts = run.facts["reconciliation"]
        assert counts["duplicated"] > 0
        assert (counts["lost"], counts["unexpected"], counts["wrong"]) == (0, 0, 0)
        assert f"{counts['duplicated']} duplicated" in run.reason
        assert not run.facts["judgement"]["success"]
