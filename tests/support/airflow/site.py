"""The Airflow that tests share which want nothing else than one with the settings of support/airflow/harness.py.

Its project has the streams and DAGs of all of them. Each test leaves the stream `counted` running, as it found it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from support.airflow.harness import CLOCKED
from support.airflow.installation import Installation, installed
from support.airflow.project import Producer, add_stream, make_project

KILL_IDLE: Final = "drill_kill_idle"
PUBLISHING: Final = "publish_progress"
METRICS_TOKEN: Final = "scrape-token-of-this-test"
_DRILL: Final = """
name: kill_idle
description: A crash of the stream that was never started
stream: idle
fork: {batches: 10}
fault: {kind: kill_driver, strikes: 1}
steady_state: {min_batches: 2}
verification: {min_records: 100}
"""
_INPUT: Final = 160
"""Files of the drill's stream, a second of event time each: its windows close after a minute."""

_CONSUMER: Final = '''
import json
from pathlib import Path

from airflow.sdk import DAG, Asset, task

PUBLISHED = Asset(name="stream_published", uri="streamwarden://published")

with DAG("consumer", schedule=[PUBLISHED], is_paused_upon_creation=False):

    @task
    def note(triggering_asset_events=None):
        """Write down what each event says."""
        with Path(SEEN).open("a") as seen:
            for event in triggering_asset_events[PUBLISHED]:
                seen.write(json.dumps(event.extra) + "\\n")

    note()
'''


class SharedSite:
    """At most one installation: the first test that wants it waits for its start."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._installation: Installation | None = None

    def installation(self, folders: pytest.TempPathFactory) -> Installation:
        """The one that runs, or a new one."""
        if self._installation is None:
            root = folders.mktemp("site")
            made = installed(
                root, _project(root), KILL_IDLE, silent=(*CLOCKED, PUBLISHING), STREAMWARDEN_METRICS_TOKEN=METRICS_TOKEN
            )
            self._installation = self._open.enter_context(made)
        return self._installation

    def end(self) -> None:
        self._installation = None
        self._open.close()


def noted_events(data: Path) -> Path:
    """Where the DAG `consumer` writes down the events that triggered it, a line each."""
    return data / "noted_events"


def _project(root: Path) -> Path:
    """`counted` runs; `idle` was never started; the file of `torn` cannot be used; `published` only has its progress
    published, to the DAG `consumer`."""
    project = make_project(root / "project")
    add_stream(project, "counted", initial="5s")
    add_stream(project, "idle", description="Waits for its first input")
    (project / "config" / "streams" / "torn.yaml").write_text("name: torn\nsource: {kind: pigeons}\n")
    published = add_stream(project, "published")
    published.write_text(f"{published.read_text()}\npublish: {{batches: 1}}\n")
    (project / "config" / "drills" / "kill_idle.yaml").write_text(_DRILL)
    (project / "dags" / "consumer.py").write_text(_CONSUMER.replace("SEEN", repr(str(noted_events(root / "data")))))
    Producer(root / "data" / "input" / "idle").publish(_INPUT)
    return project


shared = SharedSite()
