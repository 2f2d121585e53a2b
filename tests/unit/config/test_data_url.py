"""A URL in the place of the data folder: what it means for each path of a stream's file, and what is refused.

What belongs to a host stays in a folder of the host. With real storages: `tests/spark/storage/test_object_store.py`,
`tests/engines/test_hdfs_stream.py`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.config.loading import load_catalog, load_stream
from streamwarden.config.stored_spec import spec_from_dict, spec_to_dict
from streamwarden.errors import ConfigError
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.lifecycle.location import DataUrl
from streamwarden.lifecycle.savepoints.savepoint import root_of
from streamwarden.lifecycle.script_queries import located
from streamwarden.services.fleet.launching.launch import driver_environment, remote_environment
from streamwarden.services.fleet.readable_places import unreadable_place
from streamwarden.services.forks.working_folder import WORK, in_working_folder
from streamwarden.services.upgrades.proposal import propose
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec
from support.streams.projects import Project

LAKE = DataUrl("hdfs://lake/streams")


def load(project: Project, line: str = "", url: DataUrl = LAKE) -> StreamSpec:
    return load_stream(project.stream("a", line + "\n"), project=project.root, data=project.data, data_url=url)


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("q/a", "hdfs://lake/streams/q/a"),
        ("./q//a/", "hdfs://lake/streams/q/a"),
        ("x/../q", "hdfs://lake/streams/q"),
        ("q ü%20", "hdfs://lake/streams/q ü%20"),
        ("/srv/q", "/srv/q"),
        ("file:///srv/q", "/srv/q"),
        ("s3a://bucket/q", "s3a://bucket/q"),
        ("hdfs:/q", "hdfs:///q"),
    ],
)
def test_a_relative_path_is_below_the_url_and_any_other_stays(project: Project, written: str, place: str) -> None:
    assert load(project, f"quarantine: '{written}'").quarantine == place


def test_every_folder_of_the_file_is_below_the_url_and_the_job_below_the_project(project: Project) -> None:
    spec = load(project, "savepoints: {folder: saved}\nqueries: {left: checkpoints/a/left}")
    assert (spec.source.path, spec.sink.path) == (f"{LAKE}/input/a", f"{LAKE}/output/a")
    assert spec.checkpoints == (f"{LAKE}/checkpoints/a", f"{LAKE}/checkpoints/a/left")
    assert spec.savepoints.folder == f"{LAKE}/saved"
    assert spec.job == str(project.root / "spark_jobs/job.py")
    assert (spec.data, spec.data_url) == (str(project.data), str(LAKE))
    assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec


@pytest.mark.parametrize(
    ("url", "root"), [("hdfs:///", "hdfs:///"), ("hdfs://lake/x", "hdfs://lake/x/"), ("s3a://bucket", "s3a://bucket/")]
)
def test_savepoints_are_below_the_url_unless_the_file_names_a_folder(project: Project, url: str, root: str) -> None:
    spec = load(project, url=DataUrl(url))
    assert (spec.checkpoint, root_of(spec)) == (f"{root}checkpoints/a", f"{root}savepoints/a")
    assert root_of(load(project, "savepoints: {folder: /backups}", url=DataUrl(url))) == "/backups/a"


@pytest.mark.parametrize(
    ("line", "url", "message"),
    [
        ("quarantine: ../q", LAKE, r"quarantine: 'hdfs://lake/streams/\.\./q'.*a URL without \.\."),
        ("quarantine: q", DataUrl("hdfs://lake/a/../b"), r"a URL without \.\."),
        ("quarantine: q", DataUrl("s3a://"), "s3a://BUCKET/FOLDER"),
        ("quarantine: q*", LAKE, r"without \* \?"),
        ("quarantine: ' q'", LAKE, "without surrounding blanks"),
        ("quarantine: .", LAKE, "contains"),
        ("quarantine: savepoints/q", LAKE, "hdfs://lake/streams/savepoints, which Streamwarden itself writes to"),
        ("quarantine: output/a", LAKE, "separate folders"),
        ("storage: {connection: lake}", LAKE, "no path of this stream begins with s3a://"),
        ("data_url: hdfs://other/x", LAKE, "data_url"),
    ],
)
def test_what_cannot_be_is_refused(project: Project, line: str, url: DataUrl, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(project, line, url)


def test_what_is_reserved_on_this_host_is_free_in_the_storage(project: Project) -> None:
    """Negative control: the same path in the data folder is refused."""
    assert load(project, "quarantine: drivers/q").quarantine == f"{LAKE}/drivers/q"
    with pytest.raises(ConfigError, match="which Streamwarden itself writes to"):
        load(project, f"quarantine: {project.data}/drivers/q")


def test_a_stream_below_a_bucket_may_name_a_connection(project: Project) -> None:
    spec = load(project, "storage: {connection: lake}", DataUrl("s3a://bucket"))
    assert spec.in_object_store == {"checkpoint", "source", "sink"}


def test_streams_collide_below_the_url(project: Project) -> None:
    project.stream("a")
    project.stream("b", "quarantine: hdfs://LAKE/streams/output/a\n")
    assert sorted(load_catalog(project.root, project.data, data_url=LAKE).broken) == ["a", "b"]
    assert load_catalog(project.root, project.data).broken == {}


def test_a_storage_without_a_client_is_refused_before_a_start(project: Project) -> None:
    refused = unreadable_place(load(project, url=DataUrl("ipfs://lake/streams")))
    assert refused is not None
    assert "ipfs://lake/streams/checkpoints/a" in refused.observed
    assert (refused.where.endswith("checkpoint"), bool(refused.next_step)) == (True, True)


def test_a_relative_path_of_a_script_is_below_its_working_directory(project: Project) -> None:
    assert located(load(project), "checkpoints/a") == str(project.data / "checkpoints/a")


def test_a_driver_gets_both_and_a_fork_in_a_working_folder_only_that(project: Project, tmp_path: Path) -> None:
    project.data.mkdir()
    spec = load(project)
    forked = in_working_folder(replace(spec, name="a__fork_1"), spec, project.data / "drills/run")

    def places(of: StreamSpec) -> tuple[str, str]:
        found = driver_environment(of, project.data, "sqlite://", None, own_spark=False)
        return found["STREAMWARDEN_DATA"], found["STREAMWARDEN_LOCAL_DATA"]

    work = str(project.data / "drills/run" / WORK)
    assert places(spec) == (str(LAKE), str(project.data))
    assert places(forked) == (work, work)
    there = remote_environment(replace(spec, spark=SparkSpec(master="yarn")), project.data, "sqlite://", {})
    assert there["spark.yarn.appMasterEnv.STREAMWARDEN_DATA"] == str(LAKE)


def test_an_upgrade_finds_the_stream_where_it_is(project: Project) -> None:
    spec = load(project)
    changed = project.write("new.yaml", Path(spec.file).read_text() + "state: {shuffle_partitions: 3}\n")
    after = propose(spec, None, changed, DEFAULTS).after
    assert after == replace(spec, state=replace(spec.state, shuffle_partitions=3))
