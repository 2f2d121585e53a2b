"""Every stream of the repository as the DAG that its file makes, in a real Airflow: started, committing, stopped.

What each of them writes is judged by tests/spark; here the question is whether the files in config/streams and
spark_jobs, as they are shipped, run in Airflow. In the first tier tests/integration/test_compose.py says so: there the
repository's files break no DAG, and flight_departures runs as one and stops at a batch boundary.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.replay.replay import replay
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec
from support.airflow.harness import CLOCKED, REPOSITORY, Airflow, running, wait_for
from support.streams.catalogue import STREAMS

pytestmark = [pytest.mark.full, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

PAIRS = [STREAMS[at : at + 2] for at in range(0, len(STREAMS), 2)]
LONG = 240.0
EVENTS = ({"event_time": "2026-01-05T09:00:00.000Z", "user_id": 7, "action": "login"},)
ACTIONS = ({"user_id": 7, "action": "login"},)
SESSIONS = ({"id": "web:7", "data": "a", "is_last": True},)
READINGS = ({"device_id": "d-7", "session_id": "s-1", "state": "charging", "event_time": "2026-01-05T09:00:00.000Z"},)
PURCHASES = ({"customer": "c-7", "amount": 1250},)


def lines(*rows: dict[str, object]) -> Callable[[StreamSpec], None]:
    def publish(spec: StreamSpec) -> None:
        part = Path(spec.source.folders[0]) / ".0.part"
        part.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(part, (1_800_000_000, 1_800_000_000))
        part.rename(part.with_name("0.json"))

    return publish


def flights(spec: StreamSpec) -> None:
    replay(Path(str(spec.source.path)), parts=spec.source.parts, limit=1000)


def nothing(spec: StreamSpec) -> None:
    """The source is a generator."""


INPUTS: dict[str, Callable[[StreamSpec], None]] = {
    "aircraft_rotations": flights,
    "device_heartbeats": lines(*READINGS),
    "device_heartbeats_event_time": lines(*READINGS),
    "event_dedup": lines(*({"event_id": f"e{at}", **event} for at, event in enumerate(EVENTS))),
    "event_windows": lines(*EVENTS),
    "flight_dedup": flights,
    "flight_dedup_unbounded": flights,
    "flight_departures": flights,
    "flight_weather": flights,
    "state_evolution": lines(*PURCHASES),
    "user_action_counts": lines(*ACTIONS),
    "user_sessions": lines(*SESSIONS),
    "windowed_values": nothing,
}


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Airflow, Workspace]]:
    root = tmp_path_factory.mktemp("catalogue")
    airflow = Airflow(root / "airflow", REPOSITORY, root / "data")
    space = Workspace.open(REPOSITORY, root / "data", environ={})
    try:
        with running(airflow, CLOCKED):
            wanted = {f"stream_{name}" for name in STREAMS}
            wait_for("the DAGs", lambda: wanted <= airflow.dag_ids(), timeout=LONG)
            yield airflow, space
    finally:
        for name in STREAMS:
            space.fleet.stop(name, requested_by="test", reason="the end", batch_deadline=5, term_deadline=5)
        space.close()


def test_each_stream_has_an_input_here() -> None:
    assert sorted(INPUTS) == sorted(STREAMS)


def test_no_file_of_the_repository_breaks_a_dag(installation: tuple[Airflow, Workspace]) -> None:
    airflow, _ = installation
    assert airflow.import_errors() == []


@pytest.mark.parametrize("names", PAIRS, ids=" and ".join)
def test_streams_run_as_dags(names: tuple[str, ...], installation: tuple[Airflow, Workspace]) -> None:
    """Two at a time: each on two cores of its own would take twice as long."""
    airflow, space = installation

    def story() -> str:
        told = []
        for name in names:
            task, record = airflow.task(f"stream_{name}"), space.store.drivers.latest(name)
            log = airflow.log(f"stream_{name}", task, task["try_number"])[-3000:] if task else "no task yet"
            told.append(f"{record}\n{log}")
        return "\n".join(told)

    def committed(name: str) -> bool:
        return space.store.batches.summary(name).batches > 0

    def deferred(name: str) -> bool:
        task = airflow.task(f"stream_{name}")
        return task is not None and task["state"] == "deferred"

    for name in names:
        spec = space.stream(name)
        if spec.source.kind == "files":
            for folder in spec.source.folders:
                Path(folder).mkdir(parents=True, exist_ok=True)
            INPUTS[name](spec)
        airflow.pause(f"stream_{name}", False)
    for name in names:
        wait_for(f"a committed batch of {name}", partial(committed, name), timeout=LONG, explain=story)
        wait_for(f"a task of {name} that waits deferred", partial(deferred, name), timeout=LONG, explain=story)
        airflow.pause(f"stream_{name}", True)
        rows = space.store.batches.summary(name).rows
        assert rows > 0 or space.stream(name).source.kind == "rate", story()
    for name in names:
        seen = space.fleet.stop(name, requested_by="test", reason="it runs")
        assert seen is not None
        assert seen.exit is not None
        assert seen.exit.kind is ExitKind.STOPPED, story()
