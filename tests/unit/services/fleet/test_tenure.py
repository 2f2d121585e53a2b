"""The store says which of two streams with one checkpoint is the original: the whole way from a driver's records."""

import time

import pytest

from streamwarden.adapters.store import Store
from streamwarden.lifecycle import driver_folder as files
from streamwarden.services.fleet.stream_history import tenure
from streamwarden.services.workspace import Workspace
from support.streams.launches import launch
from support.streams.projects import Project


@pytest.mark.parametrize("ended", [False, True], ids=["running", "stopped"])
def test_copying_the_file_of_a_stream_does_not_take_the_stream_out_of_supervision(
    project: Project, ended: bool
) -> None:
    path = project.stream("flights")
    with Workspace.open(project.root, environ={}) as space:
        launch(space.store, project.data, project.load(path), ended=ended)
        project.write("config/streams/a_copy.yaml", path.read_text().replace("name: flights", "name: a_copy"))
        assert space.stream("flights").checkpoint == str(project.data / "checkpoints/flights")
        assert list(space.catalog().broken) == ["a_copy"]
        verb = "has run there" if ended else "runs there"
        assert verb in str(space.catalog().broken["a_copy"])


def test_the_copy_takes_over_when_the_original_file_is_deleted(project: Project) -> None:
    path = project.stream("flights")
    with Workspace.open(project.root, environ={}) as space:
        launch(space.store, project.data, project.load(path), ended=True)
        project.write("config/streams/renamed.yaml", path.read_text().replace("name: flights", "name: renamed"))
        path.unlink()
        assert (list(space.catalog().streams), space.catalog().broken) == (["renamed"], {})


def test_a_clash_in_a_project_that_never_ran_a_stream_creates_no_store(project: Project) -> None:
    path = project.stream("flights")
    project.write("config/streams/a_copy.yaml", path.read_text().replace("name: flights", "name: a_copy"))
    with Workspace.open(project.root, environ={}) as space:
        assert sorted(space.catalog().broken) == ["a_copy", "flights"]
    assert not project.data.exists()


def test_a_stream_that_never_ran_has_no_tenure_and_one_whose_folder_is_damaged_has_no_last_settings(
    store: Store, project: Project
) -> None:
    assert tenure(store, "flights", time.time()) is None
    spec = project.load(project.stream("flights"))
    launch(store, project.data, spec)
    known = tenure(store, "flights", time.time())
    assert known is not None
    assert (known.runs, known.last) == (True, spec)
    (file,) = (project.data / "drivers").rglob(files.SPEC)
    for damaged in ('{"source": 1}', "no JSON"):
        file.write_text(damaged)
        forgotten = tenure(store, "flights", time.time())
        assert forgotten is not None
        assert forgotten.last is None
