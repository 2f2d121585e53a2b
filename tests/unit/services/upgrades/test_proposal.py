"""The stream's file as an upgrade makes it: one line is another one, and all else stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.config.loading import load_stream
from streamwarden.errors import ConfigError
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.services.upgrades.proposal import Proposal, propose, with_job
from streamwarden.stream.spec import StreamSpec
from support.streams.upgrades import STREAM, declare, version


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    return load_stream(declare(tmp_path), project=tmp_path, data=tmp_path / "var")


def proposed(spec: StreamSpec, file: str) -> Proposal:
    path = Path(spec.project) / "new.yaml"
    path.write_text(file)
    return propose(spec, None, path, DEFAULTS)


def test_another_job_is_one_line_of_the_file(spec: StreamSpec, tmp_path: Path) -> None:
    made = propose(spec, version(tmp_path, "minutes_v2"), None, DEFAULTS)
    assert made.new_text == STREAM.replace("spark_jobs/minutes.py ", "spark_jobs/minutes_v2.py ")
    assert made.after.job == str(tmp_path / "spark_jobs/minutes_v2.py")
    assert (made.after.file, made.after.checkpoint) == (spec.file, spec.checkpoint)
    assert Path(spec.file).read_text() == STREAM, "the file itself is not touched"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("job: a.py", "job: spark_jobs/n.py"),
        ("job:   'a b.py'  # why", "job:   spark_jobs/n.py  # why"),
        ('job: "a.py"', "job: spark_jobs/n.py"),
        ("job: a#b.py # c", "job: spark_jobs/n.py # c"),
        ("job: größe.py # größe", "job: spark_jobs/n.py # größe"),
    ],
)
def test_the_rest_of_the_line_stays(spec: StreamSpec, tmp_path: Path, line: str, expected: str) -> None:
    text = f"name: x\n{line}\nsource: {{job: no}}\n"
    assert with_job(text, tmp_path / "spark_jobs/n.py", spec) == text.replace(line, expected)


def test_a_new_text_of_the_file_may_change_the_settings(spec: StreamSpec) -> None:
    made = proposed(spec, STREAM.replace("shuffle_partitions: 2", "shuffle_partitions: 8"))
    assert made.after.state.shuffle_partitions == 8


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "", "nothing changes"),
        ("origin/checkpoint", "elsewhere", "checkpoint would change"),
        ("origin/output", "elsewhere", "sink would change"),
        ("origin/input", "elsewhere", "source would change"),
        ("spark_jobs/minutes.py", "spark_jobs/script.py", "the job is a script"),
        ("spark_jobs/minutes.py", "spark_jobs/none.py", "there is no file"),
        ("name: minutes", "name: hours", "the file's own name"),
    ],
)
def test_what_is_no_upgrade_is_refused(spec: StreamSpec, tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "spark_jobs/script.py").write_text("spark.readStream\n")
    with pytest.raises(ConfigError, match=message):
        proposed(spec, STREAM.replace(old, new) if old else STREAM)


def test_a_job_outside_of_the_project_is_refused(spec: StreamSpec, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("elsewhere") / "job.py"
    outside.write_text("def build(spark, spec): ...\n")
    with pytest.raises(ConfigError, match="outside the project"):
        propose(spec, outside, None, DEFAULTS)


def test_a_file_without_a_job_needs_a_new_text(spec: StreamSpec, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no key `job`"):
        with_job("{name: x, jobs: a.py}\n", tmp_path / "spark_jobs/n.py", spec)
