"""Many streams together: a broken file breaks its own stream only, and streams do not clash on disk."""

import time

import pytest

from streamwarden.config.loading import load_catalog, load_drills
from streamwarden.errors import ConfigError
from support.streams.projects import Project


def test_a_broken_file_breaks_its_own_stream_only(project: Project) -> None:
    project.stream("good")
    project.write("config/streams/bad.yaml", "name: bad\nwhat: is this\n")
    project.write("config/streams/torn.yaml", "name: [")
    catalog = project.catalog()
    assert list(catalog.streams) == ["good"]
    assert sorted(catalog.broken) == ["bad", "torn"]
    assert "config/streams/bad.yaml" in str(catalog.broken["bad"])


@pytest.mark.parametrize("checkpoint", ["checkpoints/a", "checkpoints/a/", "checkpoints/a/deeper", "checkpoints"])
def test_two_streams_on_one_checkpoint_are_both_broken_and_name_each_other(project: Project, checkpoint: str) -> None:
    project.stream("a")
    project.stream("c")
    path = project.stream("b")
    path.write_text(path.read_text().replace("checkpoints/b", checkpoint))
    if checkpoint == "checkpoints":
        project.root.joinpath("config/streams/c.yaml").unlink()
        project.stream("c").write_text(
            "name: c\njob: spark_jobs/job.py\nsource: {path: i}\nsink: {path: o}\ncheckpoint: elsewhere\n"
        )
    catalog = project.catalog()
    assert list(catalog.streams) == ["c"]
    assert "stream b (b.yaml)" in str(catalog.broken["a"])
    assert "stream a (a.yaml)" in str(catalog.broken["b"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("checkpoints/b", "output/a/ckpt"),
        ("checkpoints/b", "input/a/ckpt"),
        ("output/b", "output/a"),
        ("output/b", "output/a/part"),
        ("output/b", "output"),
        ("input/b", "checkpoints/a"),
    ],
)
def test_locations_of_two_streams_that_would_damage_each_other_are_refused(
    project: Project, key: str, value: str
) -> None:
    project.stream("a")
    path = project.stream("b")
    path.write_text(path.read_text().replace(key, value))
    assert sorted(project.catalog().broken) == ["a", "b"]


@pytest.mark.parametrize("folder", ["checkpoints/a", "output/a/saved", "input/a"])
def test_savepoints_are_outside_of_what_another_stream_reads_and_writes(project: Project, folder: str) -> None:
    project.stream("a")
    project.stream("b", f"savepoints: {{folder: {folder}}}")
    assert "b" in project.catalog().broken


@pytest.mark.parametrize("folder", ["checkpoints/a/saved", "output", "drills/saved"])
def test_savepoints_are_outside_of_the_streams_own_folders(project: Project, folder: str) -> None:
    assert "savepoints.folder" in str(project.error(project.stream("a", f"savepoints: {{folder: {folder}}}")))


def test_streams_share_a_folder_for_their_savepoints(project: Project) -> None:
    """Each has a folder of its own in it. The default may be written, too."""
    for name, folder in (("a", "/backup"), ("b", "/backup"), ("c", "savepoints"), ("d", "s3a://lake/saved")):
        storage = "storage: {connection: lake}" if name == "d" else ""
        project.stream(name, f"savepoints: {{folder: {folder}}}\n{storage}")
    catalog = project.catalog()
    assert catalog.broken == {}
    assert catalog.streams["c"].savepoints.folder == str(project.data / "savepoints")


@pytest.mark.parametrize(("table", "clash"), [("public.t", True), ("t", True), ("web.t", False)])
def test_two_streams_do_not_write_one_table(project: Project, table: str, clash: bool) -> None:
    for name, written in (("a", "t"), ("b", table)):
        path = project.stream(name)
        sink = f"sink: {{kind: postgresql, connection: warehouse, table: {written}}}"
        path.write_text(path.read_text().replace(f"sink: {{path: output/{name}}}", sink))
    catalog = project.catalog()
    assert sorted(catalog.broken) == (["a", "b"] if clash else [])
    if clash:
        assert "the stream b (b.yaml)" in str(catalog.broken["a"])


@pytest.mark.parametrize(("trigger", "clash"), [("real_time: 10 s", True), ("processing_time: 10 s", False)])
def test_a_stream_in_real_time_mode_shares_its_topic_with_no_other(project: Project, trigger: str, clash: bool) -> None:
    """Its records do not name their query, as those of micro-batches do."""
    for name, when in (("a", "processing_time: 10 s"), ("b", trigger)):
        project.write(
            f"config/streams/{name}.yaml",
            f"""
            name: {name}
            job: spark_jobs/job.py
            source: {{kind: kafka, connection: c, topic: t}}
            sink: {{kind: kafka, connection: c, topic: out, key: [id], mode: update}}
            checkpoint: checkpoints/{name}
            trigger: {{{when}}}
            spark: {{master: "local[*]"}}
            """,
        )
    catalog = project.catalog()
    assert sorted(catalog.broken) == (["a", "b"] if clash else [])
    if clash:
        assert "'out' is also the topic of the stream b (b.yaml)" in str(catalog.broken["a"])


def test_stream_may_read_the_output_of_another(project: Project) -> None:
    project.stream("a")
    path = project.stream("b")
    path.write_text(path.read_text().replace("input/b", "output/a"))
    assert sorted(project.catalog().streams) == ["a", "b"]


def test_a_sibling_with_a_common_prefix_in_its_name_is_no_clash(project: Project) -> None:
    project.stream("a")
    project.stream("ab")
    path = project.stream("b")
    path.write_text(path.read_text().replace("checkpoints/b", "checkpoints/a_b"))
    assert project.catalog().broken == {}


def test_object_store_urls_are_compared_without_their_scheme(project: Project) -> None:
    for name, scheme in (("a", "s3a"), ("b", "s3")):
        path = project.stream(name)
        path.write_text(path.read_text().replace(f"checkpoints/{name}", f"{scheme}://bucket/ckpt"))
    assert sorted(project.catalog().broken) == ["a", "b"]


def test_a_file_with_another_extension_is_reported_and_not_silently_left_out(project: Project) -> None:
    project.stream("a").rename(project.root / "config/streams/a.yml")
    catalog = project.catalog()
    assert catalog.streams == {}
    assert "rename it to a.yaml" in str(catalog.broken["a.yml"])
    with pytest.raises(ConfigError, match=r"rename it to a\.yaml"):
        catalog.get("a")


def test_editor_leftovers_and_notes_are_no_streams(project: Project) -> None:
    for name in (".a.yaml.swp", ".hidden.yaml", "README.md", "a.yaml~"):
        project.write(f"config/streams/{name}", "no stream")
    catalog = project.catalog()
    assert (catalog.streams, catalog.broken) == ({}, {})


def test_asking_for_a_stream_that_is_not_there_offers_the_nearest(project: Project) -> None:
    project.stream("flight_departures")
    with pytest.raises(ConfigError, match="did you mean 'flight_departures'"):
        project.catalog().get("flight_departure")


def test_asking_for_a_broken_stream_gives_the_error_of_its_file(project: Project) -> None:
    project.stream("a", "color: red\n")
    with pytest.raises(ConfigError, match="color"):
        project.catalog().get("a")


def test_a_folder_that_is_not_a_project_is_reported(project: Project) -> None:
    with pytest.raises(ConfigError, match="STREAMWARDEN_PROJECT"):
        load_catalog(project.root / "nowhere", project.data)


def test_a_thousand_streams_are_read_in_seconds(project: Project) -> None:
    """The dag-processor reads them all at each parse: the work grows with their number, not with its square."""
    for number in range(200):
        project.stream(f"s{number}")
    started = time.process_time()
    assert len(project.catalog().streams) == 200
    assert time.process_time() - started < 3


DRILL = "name: kill\nstream: a\nfault: {kind: kill_driver}\n"


def test_a_drill_is_read_with_its_defaults(project: Project) -> None:
    project.write("config/drills/kill.yaml", DRILL + "recovery: {target: 1m, deadline: 10m}\nfork: {rewind: 3}\n")
    drills, broken = load_drills(project.root)
    assert broken == {}
    assert drills["kill"].recovery.target == 60.0
    assert drills["kill"].fork.rewind == 3
    assert drills["kill"].file.endswith("config/drills/kill.yaml")


@pytest.mark.parametrize(
    ("line", "key", "message"),
    [
        ("fork: {rewind: some}", "fork.rewind", "'some'"),
        ("recovery: {target: 10m, deadline: 1m}", "recovery.deadline", "at least the target"),
        ("steady_state: {min_batches: 0}", "steady_state.min_batches", "at least 1"),
        ("stream_name: a", "stream_name", "did you mean `stream`"),
        ("file: x", "file", "unknown key"),
    ],
)
def test_a_mistake_in_a_drill_is_reported_as_in_a_stream(project: Project, line: str, key: str, message: str) -> None:
    project.write("config/drills/kill.yaml", DRILL + line + "\n")
    drills, broken = load_drills(project.root)
    assert drills == {}
    text = str(broken["kill"])
    assert key in text
    assert message in text
    assert "config/drills/kill.yaml" in text


def test_a_drill_bears_the_name_of_its_file(project: Project) -> None:
    project.write("config/drills/other.yaml", DRILL)
    assert "the file's own name, 'other'" in str(load_drills(project.root)[1]["other"])


def test_a_project_without_drills_has_none(project: Project) -> None:
    (project.root / "config/drills").rmdir()
    assert load_drills(project.root) == ({}, {})
