"""From a topic of a real broker into a table of a real PostgreSQL: the drill between the two commits."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from streamwarden.adapters.connections import connection, variable
from streamwarden.adapters.replay_topic import replay_to_topic
from streamwarden.drills.spec import FaultKind
from support.drill_project import drill_project, run_drill
from support.kafka_broker import broker
from support.postgres_server import running

pytestmark = pytest.mark.spark

RECORDS = 100_000
SOURCE = "{{kind: kafka, connection: events, topic: flights, max_offsets_per_trigger: 10000}}"
SINK = "{kind: postgresql, connection: warehouse, table: flights.departures, key: [window_start, origin, carrier]}"


def test_a_driver_killed_between_the_two_commits_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with broker() as kafka, running() as server:
        server.create("warehouse")
        monkeypatch.setenv(variable("events"), kafka.connection)
        monkeypatch.setenv(variable("warehouse"), server.connection("warehouse"))
        assert replay_to_topic(connection("events"), "flights", limit=RECORDS + 2_500).sent == RECORDS + 2_500
        with drill_project(
            tmp_path,
            inputs=tmp_path,
            fault=FaultKind.KILL_AFTER_DATABASE_COMMIT,
            attempts=3,
            source=SOURCE,
            sink=SINK,
        ) as workspace:
            run = run_drill(workspace)
            assert run.passed, run.reason
            fork, proof, counts = (run.facts[name] for name in ("fork", "fault", "reconciliation"))
            assert (fork["unseen"], fork["what"]) == (RECORDS + 2_500, "record")
            assert proof["evidence"]["signal"] == signal.SIGKILL
            assert proof["evidence"]["database_batch"] == proof["planned"] == proof["committed"] + 1
            assert counts["records"] == RECORDS + 2_500
            assert counts["expected"] == counts["actual"] > 10_000
            assert counts["exactly_once"]
