"""Whatever one file holds, the other files load, and the file's error names the type and what to do next."""

import os
from pathlib import Path

import pytest

from streamwarden.config import loading
from streamwarden.config.isolation import UnforeseenError
from streamwarden.config.loading import load_drills
from streamwarden.errors import ConfigError
from support.streams.projects import Project

MANY = "9" * 309
DRILL = "name: {name}\nstream: good\nfault: {{kind: kill_driver}}\n"


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("state: {backend: [rocksdb]}", "state.backend"),
        ("source: [files]", "source"),
        (f"tags: [{'x' * 101}]", "tags[0]: a tag of 101 characters"),
        ('tags: [""]', "tags[0]: a tag of 0 characters"),
        (f"owner: {'x' * 501}", "owner: 501 characters"),
        ('quarantine: "a\\0b"', "quarantine: the character U+0000"),
        ('description: "\\0"', "description: the character U+0000"),
        (f"restart: {{initial: {MANY}}}", "restart.initial"),
        (f'restart: {{initial: "{MANY} s"}}', "restart.initial"),
        (f'restart: {{budget: "{MANY} per hour"}}', "restart.budget"),
        (f"state: {{shuffle_partitions: {MANY}}}", "state.shuffle_partitions"),
        (f'spark: {{driver_memory: "{MANY} GB"}}', "spark.driver_memory"),
        (f"health: {{thresholds: {{state_size: {{warning: {MANY}}}}}}}", "health.thresholds.state_size.warning"),
        ("stop: {batch_deadline: 1e300}", "stop.batch_deadline"),
        (f"quarantine: {'x' * 256}", "quarantine: a path of 256 characters"),
        (f"quarantine: {'x/' * 600}x", "quarantine: a path of 1201 characters"),
        (f"spark: {{py_files: [{'x' * 300}.py]}}", "spark.py_files[0]: there is no file"),
    ],
)
def test_a_wrong_value_is_the_error_of_its_file_alone(project: Project, line: str, key: str) -> None:
    project.stream("good")
    path = project.stream("bad", line + "\n")
    if line.startswith("source"):
        path.write_text(path.read_text().replace("source: {path: input/bad}\n", ""))
    catalog = project.catalog()
    assert list(catalog.streams) == ["good"]
    assert not isinstance(catalog.broken["bad"], UnforeseenError)
    assert key in str(catalog.broken["bad"])


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("fork: {rewind: [5]}", "fork.rewind"),
        (f"tags: [{'x' * 101}]", "tags[0]"),
        ("schedule: 99 99", "schedule: '99 99'"),
        ('schedule: "0 0 31 2 *"', "schedule: '0 0 31 2 *': failed to find next date"),
        (f'schedule: "{",".join("5" * 60)} * * * *"', "schedule: 127 characters"),
        ("recovery: {target: 1m, deadline: 1e300}", "recovery.deadline"),
    ],
)
def test_a_wrong_value_in_a_drill_is_the_error_of_its_file_alone(project: Project, line: str, key: str) -> None:
    project.write("config/drills/good.yaml", DRILL.format(name="good"))
    project.write("config/drills/bad.yaml", DRILL.format(name="bad") + line + "\n")
    drills, broken = load_drills(project.root)
    assert list(drills) == ["good"]
    assert key in str(broken["bad"])


@pytest.mark.parametrize("name", ["x" * 239, "kill driver", "Ä", "a.b", "-", os.fsdecode(b"caf\xe9")])
def test_a_file_name_that_no_stream_may_have_is_the_error_of_its_file(project: Project, name: str) -> None:
    project.stream("good")
    project.stream("bad").rename(project.root / f"config/streams/{name}.yaml")
    catalog = project.catalog()
    assert list(catalog.streams) == ["good"]
    (error,) = catalog.broken.values()
    str(error).encode()
    "".join(catalog.broken).encode()


def test_an_exception_that_no_rule_foresaw_is_the_error_of_its_file(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.stream("good")
    project.stream("bad")
    rules = loading.rules_of_one

    def fail(spec, raw, *, stem: str, data: Path):
        return {}["no such key"] if stem == "bad" else rules(spec, raw, stem=stem, data=data)

    monkeypatch.setattr(loading, "rules_of_one", fail)
    catalog = project.catalog()
    assert list(catalog.streams) == ["good"]
    message = str(catalog.broken["bad"])
    assert "config/streams/bad.yaml: KeyError while the file was read: \"'no such key'\"" in message
    assert "next: look for an unusual value" in message


def test_a_link_to_a_file_outside_the_folder_is_refused_and_its_text_is_not_shown(
    project: Project, tmp_path: Path
) -> None:
    secret = tmp_path / "elsewhere.yaml"
    secret.write_text("password: hunter2\n")
    link = project.root / "config/streams/a.yaml"
    link.symlink_to(secret)
    message = str(project.error(link))
    assert "a symbolic link to a file outside the folder streams" in message
    assert "password" not in message
    link.unlink()
    link.symlink_to("../thresholds.yaml")
    assert "outside the folder" in str(project.error(link))


def test_a_mounted_configuration_whose_links_stay_in_its_folder_is_read(project: Project) -> None:
    """As Kubernetes mounts a ConfigMap: `a.yaml -> ..data/a.yaml`, and `..data` is a link, too."""
    folder = project.root / "config/streams"
    (folder / "..2026").mkdir()
    project.stream("a").rename(folder / "..2026/a.yaml")
    (folder / "..data").symlink_to("..2026")
    (folder / "a.yaml").symlink_to("..data/a.yaml")
    assert list(project.catalog().streams) == ["a"]


@pytest.mark.parametrize("how", ["absolute", "parent", "link"])
def test_a_job_outside_the_project_is_refused(project: Project, tmp_path: Path, how: str) -> None:
    project_root = project.root / "inner"
    inner = Project.make(project_root)
    outside = tmp_path / "outside.py"
    outside.write_text("")
    (inner.root / "spark_jobs/link.py").symlink_to(outside)
    job = {"absolute": str(outside), "parent": "../outside.py", "link": "spark_jobs/link.py"}[how]
    path = inner.stream("a")
    path.write_text(path.read_text().replace("spark_jobs/job.py", job))
    message = str(inner.error(path))
    assert f"is the file {outside}, outside the project" in message
    assert "next: copy the job and the modules that it imports into the project" in message


def test_a_job_with_a_name_that_no_file_can_have_is_not_there(project: Project) -> None:
    path = project.stream("a")
    path.write_text(path.read_text().replace("job.py", f"{'x' * 300}.py"))
    assert "there is no file" in str(project.error(path))


def test_text_that_is_not_a_mapping_is_not_shown(project: Project) -> None:
    path = project.write("config/streams/a.yaml", "hunter2\n")
    assert "hunter2" not in str(project.error(path))


def test_broken_thresholds_of_any_kind_leave_the_streams_as_they_are(project: Project) -> None:
    project.stream("good")
    project.write("config/thresholds.yaml", f"state_size: {{warning: {MANY}}}\n")
    assert list(project.catalog().streams) == ["good"]
    with pytest.raises(ConfigError, match="state_size"):
        loading.load_thresholds(project.root)
