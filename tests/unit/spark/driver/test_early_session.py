"""Whether a driver opens a session by itself, so that it may be opened while its program is imported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamwarden.config.stored_spec import spec_to_dict
from streamwarden.lifecycle import driver_folder as files
from streamwarden.spark.driver.early_session import open_early, opens_itself
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec

BUILD = "def build(spark, spec): ...\n"


@pytest.mark.parametrize(
    ("text", "master", "expected"),
    [
        pytest.param(BUILD, "local[2]", True, id="a job with build"),
        pytest.param("print(1)\n", "local[2]", False, id="a script opens its own"),
        pytest.param(BUILD, "spark://host:7077", False, id="the master may be away for minutes"),
        pytest.param("def build(:\n", "local[2]", False, id="a job that cannot be parsed"),
        pytest.param(None, "local[2]", False, id="no job"),
    ],
)
def test_only_the_session_of_a_job_with_build_on_local_cores_is_opened_early(
    tmp_path: Path, text: str | None, master: str, expected: bool
) -> None:
    job = tmp_path / "job.py"
    if text is not None:
        job.write_text(text)
    spec = StreamSpec(name="counts", job=str(job), checkpoint="/cp", spark=SparkSpec(master=master))
    files.write_document(tmp_path / files.SPEC, spec_to_dict(spec))
    stored = json.loads((tmp_path / files.SPEC).read_text())
    assert opens_itself(stored) is expected


def test_a_folder_without_a_stream_opens_no_session(tmp_path: Path) -> None:
    assert open_early(tmp_path) is None
