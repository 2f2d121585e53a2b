"""A standby is prepared by another process than the launch that takes it: both come to the same digests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.config.stored_spec import spec_from_dict, spec_to_dict
from streamwarden.services.fleet.launching.launch import FOLDER_VARIABLE, driver_environment
from streamwarden.services.fleet.standbys.fit import fit
from streamwarden.services.fleet.standbys.preparing import watched
from streamwarden.services.fleet.standbys.waiting import changed
from streamwarden.stream.spec import Standby, StopPolicy, StreamSpec

URL = "sqlite:////store.db"


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    job = tmp_path / "job.py"
    job.write_text("import helper\n\n\ndef build(spark, spec): ...\n")
    (tmp_path / "helper.py").write_text("A = 1\n")
    return StreamSpec(
        name="counts",
        job=str(job),
        checkpoint=str(tmp_path / "cp"),
        standby=Standby.WARM,
        stop=StopPolicy(batch_deadline=60, term_deadline=10),
        project=str(tmp_path),
    )


def test_the_supervisor_process_prepares_what_the_next_launch_asks_for(
    spec: StreamSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = driver_environment(spec, tmp_path, URL, {"AIRFLOW_CONN_LAKE": "s3://"}, own_spark=True)
    monkeypatch.setattr("os.environ", {**launched, FOLDER_VARIABLE: "/drivers/counts/counts-1"})
    stored = spec_from_dict(spec_to_dict(spec))
    prepared = driver_environment(stored, tmp_path, URL, {**launched, FOLDER_VARIABLE: "…/counts-1"}, own_spark=True)
    assert fit(spec, launched, None).differences(fit(stored, prepared, None)) == ()


def test_another_connection_or_another_deadline_is_a_difference(spec: StreamSpec, tmp_path: Path) -> None:
    launched = driver_environment(spec, tmp_path, URL, {"AIRFLOW_CONN_LAKE": "s3://"}, own_spark=True)
    rotated = {**launched, "AIRFLOW_CONN_LAKE": "s3://new@"}
    other = replace(spec, stop=StopPolicy(batch_deadline=61, term_deadline=10))
    differences = fit(spec, launched, None).differences(fit(other, rotated, None))
    assert differences == ("the stream's file", "the environment of the start")


def test_a_module_that_the_job_imports_is_watched_as_well(spec: StreamSpec, tmp_path: Path) -> None:
    seen = watched(spec)
    assert not changed(seen)
    (tmp_path / "helper.py").write_text("A = 10\n")
    assert changed(seen)
