"""The files of streams are read again when they change, and not for each request."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamwarden.config.loading import Catalog
from streamwarden.errors import ConfigError
from streamwarden.services.overview.catalogs import AGAIN, FRESH, CatalogCache
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream, make_project


def test_a_changed_file_counts_within_a_second_and_an_unchanged_project_is_read_once_a_minute(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    add_stream(project, "one")
    space, clock = Workspace.open(project, tmp_path / "data", environ={}), [1000.0]
    cache = CatalogCache(lambda: clock[0])
    first = cache.newest(space).catalog
    assert sorted(first.streams) == ["one"]

    add_stream(project, "two")
    assert cache.newest(space).catalog is first
    clock[0] += FRESH + 0.1
    second = cache.newest(space).catalog
    assert sorted(second.streams) == ["one", "two"]

    (project / "config/streams/one.yaml").unlink()
    clock[0] += FRESH + 0.1
    third = cache.newest(space).catalog
    assert sorted(third.streams) == ["two"]
    clock[0] += FRESH + 0.1
    assert cache.newest(space).catalog is third

    clock[0] += AGAIN + 1
    assert cache.newest(space).catalog is not third


def test_a_new_stream_is_found_at_once(tmp_path: Path) -> None:
    """Its page is opened right after its file was written."""
    project = make_project(tmp_path / "project")
    add_stream(project, "one")
    space, cache = Workspace.open(project, tmp_path / "data", environ={}), CatalogCache(lambda: 1000.0)
    assert cache.spec(space, "one", None).name == "one"
    add_stream(project, "two")
    assert cache.spec(space, "two", None).name == "two"
    with pytest.raises(ConfigError, match="three"):
        cache.spec(space, "three", None)


def test_while_one_thread_reads_changed_files_others_get_the_previous_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "project")
    add_stream(project, "one")
    space, clock = Workspace.open(project, tmp_path / "data", environ={}), [1000.0]
    cache, began, go_on = CatalogCache(lambda: clock[0]), threading.Event(), threading.Event()
    first = cache.newest(space).catalog
    read = space.catalog

    def slowly() -> Catalog:
        began.set()
        assert go_on.wait(30)
        return read()

    monkeypatch.setattr(Workspace, "catalog", lambda space: slowly())
    add_stream(project, "two")
    clock[0] += FRESH + 0.1
    with ThreadPoolExecutor(1) as other:
        reading = other.submit(cache.newest, space)
        assert began.wait(30)
        assert cache.newest(space).catalog is first
        go_on.set()
        assert sorted(reading.result().catalog.streams) == ["one", "two"]


def test_a_broken_thresholds_file_hides_no_stream(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    add_stream(project, "one")
    (project / "config/thresholds.yaml").write_text("state_size: {warning: lots}")
    space, cache = Workspace.open(project, tmp_path / "data", environ={}), CatalogCache()
    assert sorted(cache.newest(space).catalog.streams) == ["one"]
    assert cache.newest(space).thresholds.of("state_size")["warning"] == 1e9
