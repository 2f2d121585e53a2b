"""What a tick of the health does about streams whose files were removed or broken."""

from __future__ import annotations

import time
from pathlib import Path

from streamwarden.adapters.stream_incidents import open_incident
from streamwarden.adapters.workspace import Workspace
from streamwarden.airflow.health import evaluate_all


def file(space: Workspace) -> Path:
    return space.project / "config/streams/counted.yaml"


def down(space: Workspace) -> None:
    open_incident(space.store.incidents, "counted", "out of budget", "read the log", time.time())


def test_a_stream_that_is_removed_takes_its_incidents_with_it(space: Workspace) -> None:
    """Nobody judges it any more, so nothing else would end them."""
    down(space)
    file(space).unlink()
    evaluate_all(str(space.project))
    assert list(space.store.incidents.open()) == []
    (incident,) = space.store.incidents.recent()
    assert incident.reason == "the stream is no longer in config/streams"


def test_the_incidents_of_a_stream_that_is_there_go_on(space: Workspace) -> None:
    """Its file is right, then broken, then named as none is."""
    down(space)
    evaluate_all(str(space.project))
    right = file(space).read_text()
    file(space).write_text("name: counted")
    evaluate_all(str(space.project))
    file(space).write_text(right)
    file(space).rename(file(space).with_suffix(".yml"))
    evaluate_all(str(space.project))
    assert [each.check for each in space.store.incidents.open("counted")] == ["supervision"]
