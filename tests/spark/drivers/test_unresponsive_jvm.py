"""An unresponsive JVM whose Python half is alive: the stream must not count as running."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.lifecycle.supervision.heartbeat import JVM_SILENT, silent_since
from streamwarden.sinks.files.output import read_output
from streamwarden.stream.spec import RestartPolicy
from support.spark.drivers import COUNTS, Project, minute_of, project, until
from support.spark.supervision import supervised

pytestmark = pytest.mark.spark

BOUND = 20.0
ROWS = 20
"""Rows of each published file."""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as it:
        yield it


def test_an_unresponsive_jvm_is_detected_killed_and_restarted_and_no_row_is_lost(made: Project) -> None:
    """1. A supervised stream commits. 2. SIGSTOP to its JVM alone. 3. The lease is kept while the silence may be a
    pause, and the driver says that it is silent. 4. Past the bound the supervisor process kills it, and the record says
    why. 5. The supervisor starts the next driver, and every row is in the output once."""
    spec = made.spec("counts", COUNTS, restart=RestartPolicy(initial=0.2, unresponsive_after=BOUND))
    made.publish(2)
    with supervised(made, spec):
        frozen = until("the first query", lambda: _running(made, None))
        made.await_batches(spec, 2)
        process = files.read_process(Path(frozen.folder))
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        made.publish(1)
        since = until("word of the silence", lambda: silent_since(made.store.drivers.events(frozen.driver_id)))
        assert abs(time.time() - since) < BOUND + 5
        assert made.fleet.observe(frozen.driver_id).alive, "the silence may be a pause"
        heir = until("the next driver's query", lambda: _running(made, frozen))
        made.publish(1)
        until("the closed windows", lambda: sum(_counts(made, spec.sink.path).values()) >= 3 * ROWS, poll=0.2)
    assert made.fleet.observe(heir.driver_id).alive
    ended = made.store.drivers.get(frozen.driver_id)
    assert ended is not None
    assert ended.exit is not None
    assert (ended.exit.kind, ended.exit.signal, ended.exit.error_class) == (ExitKind.KILLED, 9, "JvmUnresponsive")
    assert "its supervisor process killed it" in ended.exit.message
    events = [event.kind for event in made.store.drivers.events(frozen.driver_id)]
    assert events.index(JVM_SILENT) < events.index("signal_sent")
    assert _counts(made, spec.sink.path) == {
        (f"{minute_of(number)}:{second:02d}", key): 2 for number in range(3) for second in (0, 10) for key in range(5)
    }


def _running(made: Project, before: DriverRecord | None) -> DriverRecord | None:
    """The newest driver, if its query runs and it is not `before`."""
    latest = made.store.drivers.latest("counts")
    if latest is None or latest.run_id is None or (before is not None and latest.driver_id == before.driver_id):
        return None
    return latest


def _counts(made: Project, path: str | None) -> dict[tuple[str, int], int]:
    if not Path(path or "", "_spark_metadata").is_dir():
        return {}
    output = read_output(Path(path or ""))
    named = [dict(zip(output.columns, row, strict=True)) for row in output.rows]
    rows = [(row["window"]["start"].strftime("%H:%M:%S"), row["key"], row["n"]) for row in named]
    assert len({(start, key) for start, key, _ in rows}) == len(rows)
    return {(start, key): n for start, key, n in rows}
