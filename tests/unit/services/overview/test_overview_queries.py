"""The status of a large fleet takes a handful of queries."""

from __future__ import annotations

from pathlib import Path

from streamwarden.services.overview.facts import read_facts
from streamwarden.services.overview.status import statuses
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream, living_driver, make_project
from support.streams.reports import report
from support.streams.statements import Statements

NOW = 1_800_000_000.0


def test_forty_streams_whose_drivers_live_here_take_as_many_queries_as_one(tmp_path: Path) -> None:
    """A query for each would take the pages of a large fleet most of their time."""
    space = Workspace.open(make_project(tmp_path / "project"), tmp_path / "data", environ={})
    names = [f"stream_{number:02}" for number in range(40)]
    for name in names:
        add_stream(space.project, name)
    catalog, statements = space.catalog(), Statements(space.store)
    for name in names:
        record = living_driver(space, f"{name}-1", NOW - 60, name, catalog.streams[name].checkpoint)
        space.store.drivers.started(record.driver_id, "query", "run", NOW - 50)
        space.store.batches.upsert_progress(name, report(7))
    found = {}
    for some in (names[:1], names):
        before = statements.count
        seen = statuses(space, read_facts(space.store, catalog, some, NOW))
        found[len(some)] = statements.count - before
        assert [(each.stream, each.state, each.batch_id) for each in seen] == [(n, "running", 7) for n in some]
    assert found[40] == found[1] > 0
