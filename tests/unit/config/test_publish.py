"""The block `publish` of a stream's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.config.loading import load_catalog
from streamwarden.stream.publish import PublishSpec
from support.airflow.project import add_stream, make_project


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("{every: 1h}", PublishSpec(every=3600.0)),
        ("{every: 90}", PublishSpec(every=90.0)),
        ("{batches: 100}", PublishSpec(batches=100)),
        ("{}", PublishSpec()),
    ],
)
def test_a_stream_says_how_often_it_publishes(tmp_path: Path, text: str, policy: PublishSpec) -> None:
    project = make_project(tmp_path / "project")
    path = add_stream(project, "counted")
    path.write_text(f"{path.read_text()}\npublish: {text}\n")
    assert load_catalog(project, tmp_path / "data").get("counted").publish == policy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{every: 1h, batches: 5}", "publish.batches: 5"),
        ("{every: 0}", "publish.every: 0 s"),
        ("{batches: 0}", "publish.batches: 0"),
        ("{hourly: true}", "publish.hourly: unknown key"),
    ],
)
def test_an_error_names_the_key(tmp_path: Path, text: str, message: str) -> None:
    project = make_project(tmp_path / "project")
    path = add_stream(project, "counted")
    path.write_text(f"{path.read_text()}\npublish: {text}\n")
    assert message in str(load_catalog(project, tmp_path / "data").broken["counted"])
