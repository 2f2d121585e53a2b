"""The files of streams are read again when they change, and not for each request."""

from __future__ import annotations

from pathlib import Path

from streamwarden.services.overview.catalogs import AGAIN, CatalogCache
from streamwarden.services.workspace import Workspace
from support.airflow_project import add_stream, make_project


def test_a_file_counts_at_once_and_an_unchanged_project_is_read_once_a_minute(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    add_stream(project, "one")
    space, clock = Workspace.open(project, tmp_path / "data", environ={}), [1000.0]
    cache = CatalogCache(lambda: clock[0])
    first = cache.of(space)
    assert sorted(first.streams) == ["one"]
    assert cache.of(space) is first

    add_stream(project, "two")
    second = cache.of(space)
    assert sorted(second.streams) == ["one", "two"]

    (project / "config/streams/one.yaml").unlink()
    third = cache.of(space)
    assert sorted(third.streams) == ["two"]

    clock[0] += AGAIN + 1
    assert cache.of(space) is not third


def test_a_broken_thresholds_file_hides_no_stream(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    add_stream(project, "one")
    (project / "config/thresholds.yaml").write_text("state_size: {warning: lots}")
    space, cache = Workspace.open(project, tmp_path / "data", environ={}), CatalogCache()
    assert sorted(cache.of(space).streams) == ["one"]
    assert cache.thresholds(space).of("state_size")["warning"] == 1e9
