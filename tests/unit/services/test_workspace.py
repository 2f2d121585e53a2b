"""A workspace is found from where one stands, and opening one costs nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from streamwarden.errors import ConfigError, StoreError
from streamwarden.redaction import REDACTED
from streamwarden.services.workspace import Workspace
from support.streams.projects import Project


def test_it_is_found_from_any_folder_inside_the_project(project: Project) -> None:
    deep = project.root / "spark_jobs" / "deep"
    deep.mkdir()
    found = Workspace.open(environ={}, cwd=deep)
    assert found.project == project.root
    assert found.data == project.root / "var"
    assert found.store_url == f"sqlite:///{project.root}/var/streamwarden.db"


def test_an_argument_wins_over_the_environment_and_that_over_the_default(project: Project, tmp_path: Path) -> None:
    environ = {"STREAMWARDEN_PROJECT": str(project.root), "STREAMWARDEN_DATA": str(tmp_path / "d1")}
    found = Workspace.open(environ=environ, cwd=Path("/"))
    assert found.data == tmp_path / "d1"
    assert found.store_url == f"sqlite:///{tmp_path}/d1/streamwarden.db"
    found = Workspace.open(data=tmp_path / "d2", store_url="sqlite:///x.db", environ=environ, cwd=Path("/"))
    assert (found.data, found.store_url) == (tmp_path / "d2", "sqlite:///x.db")


def test_relative_paths_count_from_where_one_stands(project: Project) -> None:
    found = Workspace.open(project=".", data="scratch", environ={}, cwd=project.root)
    assert (found.project, found.data) == (project.root, project.root / "scratch")


@pytest.mark.parametrize(
    ("data", "url"),
    [
        ("hdfs://name:8020/streams/", "hdfs://name:8020/streams"),
        ("HDFS:/streams", "hdfs:///streams"),
        ("s3a://lake//a", "s3a://lake/a"),
    ],
)
def test_a_url_is_for_the_streams_and_what_belongs_to_a_host_stays_there(project: Project, data: str, url: str) -> None:
    project.stream("a")
    found = Workspace.open(project=project.root, data=data, environ={})
    assert (found.data, str(found.root)) == (project.root / "var", url)
    assert found.store_url == f"sqlite:///{project.root}/var/streamwarden.db"
    assert found.stream("a").checkpoint == f"{url}/checkpoints/a"
    assert Workspace.open(environ=found.environment(), cwd=Path("/")) == found
    environ = {"STREAMWARDEN_DATA": data, "STREAMWARDEN_LOCAL_DATA": "host"}
    assert Workspace.open(project.root, environ=environ, cwd=project.root).data == project.root / "host"
    assert Workspace.open(project.root, local_data="/other", environ=environ).data == Path("/other")
    moved = Workspace.open(project.root, data="/srv/streams", environ=environ)
    assert (moved.data, moved.root) == (Path("/srv/streams"), Path("/srv/streams")), "an argument wins"


def test_a_file_url_is_a_folder(project: Project) -> None:
    found = Workspace.open(project=project.root, data="file:///srv/streams", environ={})
    assert (found.data, found.data_url, found.root) == (Path("/srv/streams"), None, Path("/srv/streams"))


def test_two_data_folders_of_one_environment_are_refused(project: Project) -> None:
    environ = {"STREAMWARDEN_DATA": "/a", "STREAMWARDEN_LOCAL_DATA": "/b"}
    with pytest.raises(ConfigError, match="the data folder is /a"):
        Workspace.open(project=project.root, environ=environ)
    assert Workspace.open(project.root, environ={**environ, "STREAMWARDEN_LOCAL_DATA": "/a/"}).data == Path("/a")


@pytest.mark.parametrize(
    ("data", "local", "message"),
    [
        ("/a", "/b", "the data folder is /a"),
        ("hdfs://lake/a", "hdfs://lake/b", "belongs to this host is hdfs://lake/b"),
        (Path("hdfs://name:8020/streams"), None, "lacks a slash"),
    ],
)
def test_no_data_folder_is_left_aside_silently(
    project: Project, data: str | Path, local: str | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Workspace.open(project=project.root, data=data, local_data=local, environ={})


def test_error_without_a_project_lists_the_tried_places(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="STREAMWARDEN_PROJECT is not set"):
        Workspace.open(environ={}, cwd=tmp_path)


def test_named_folder_without_a_project_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no folder config/streams"):
        Workspace.open(environ={"STREAMWARDEN_PROJECT": str(tmp_path)}, cwd=tmp_path)


def test_a_password_of_the_store_never_shows_in_a_repr(project: Project) -> None:
    url = "postgresql://ward:s3cr%3Aet@db:5432/streamwarden"
    text = repr(Workspace.open(project.root, store_url=url, environ={}))
    assert "s3cr" not in text
    assert f"postgresql://ward:{REDACTED}@db:5432/streamwarden" in text


def test_another_process_opens_the_same_workspace_by_the_environment(project: Project) -> None:
    here = Workspace.open(project.root, store_url="sqlite:////x.db", environ={})
    assert Workspace.open(environ=here.environment(), cwd=Path("/")) == here


def test_catalog_is_read_again_each_time(project: Project) -> None:
    workspace = Workspace.open(project.root, environ={})
    assert workspace.catalog().streams == {}
    project.stream("a")
    assert workspace.stream("a").name == "a"


def test_opening_and_reading_streams_imports_no_heavy_library(project: Project) -> None:
    """A DAG file does exactly this at every parse."""
    project.stream("a")
    code = (
        "import sys; from streamwarden.services.workspace import Workspace\n"
        f"assert list(Workspace.open({str(project.root)!r}).catalog().streams) == ['a']\n"
        "heavy = {'sqlalchemy', 'pandas', 'pyarrow', 'duckdb', 'pyspark', 'great_expectations', "
        "'fsspec', 'airflow', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"
    assert not project.data.exists()


SCRIPT = """
    name: pair
    job: spark_jobs/job.py
    source: {kind: script}
    sink: {kind: script}
    checkpoint: checkpoints/pair
    queries: {left: checkpoints/pair/left, right: null}
"""


def test_a_query_is_found_by_its_name_whatever_the_store_does(project: Project) -> None:
    """A person looks into a checkpoint when things are broken: a declared query and a lone stream need no store."""
    project.write("config/streams/pair.yaml", SCRIPT)
    project.stream("alone")
    away = "postgresql+psycopg://nowhere:1/none?connect_timeout=1"
    for url in (None, away):
        space = Workspace.open(project=project.root, store_url=url, environ={})
        assert space.query("alone").checkpoint == str(project.data / "checkpoints/alone")
        assert space.query("pair/left").checkpoint == str(project.data / "checkpoints/pair/left")
        with pytest.raises(ConfigError, match="pair/left, pair/right"):
            space.query("pair")
        with pytest.raises((ConfigError, StoreError)):
            space.query("pair/none")
        space.close()
    assert not (project.data / "streamwarden.db").exists(), "a look makes no store"
