"""The example streams of packaging/compose name what docker-compose.yaml starts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from streamwarden.config.loading import load_catalog, load_drills
from streamwarden.lint.finding import Severity
from streamwarden.services.analysis.linting import lint_declared
from streamwarden.units import parse_size
from support.servers.deployment import Deployment
from support.streams.catalogue import REPOSITORY, STREAMS, copy_project

COMPOSE = Deployment.read()
EXAMPLES = REPOSITORY / "packaging" / "compose"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The repository's project with the examples copied into it, as docs/deploy.md says."""
    copy_project(tmp_path)
    for kind in ("streams", "drills"):
        for file in (EXAMPLES / kind).glob("*.yaml"):
            assert not (tmp_path / "config" / kind / file.name).exists(), "a file of the catalogue would be overwritten"
            shutil.copy(file, tmp_path / "config" / kind)
    return tmp_path


def test_an_example_stream_names_what_is_there(project: Path) -> None:
    catalog = load_catalog(project, Path(COMPOSE.environment("scheduler")["STREAMWARDEN_DATA"]))
    drills, broken = load_drills(project)
    assert (catalog.broken, broken) == ({}, {})
    examples = [file.stem for file in (EXAMPLES / "streams").glob("*.yaml")]
    assert examples
    cores, memory = (COMPOSE.option("spark-worker", option) for option in ("--cores", "--memory"))
    for spec in (catalog.streams[name] for name in examples):
        assert set(spec.connections) <= set(COMPOSE.connections())
        assert f"kafka:{spec.source.connection}/{spec.source.topic}" in COMPOSE.command("replay-to-kafka")
        assert spec.spark.master == COMPOSE.command("spark-worker")[-1]
        assert spec.spark.conf["spark.driver.host"] == "scheduler", "its workers start the drivers"
        assert spec.checkpoint.startswith("/data/"), "on the volume that driver and executors share"
        wanted = 2 * int(spec.spark.conf["spark.cores.max"])  # the stream, and the fork of its drill
        assert wanted <= int(cores)
        assert wanted * parse_size("1 GiB") <= parse_size(f"{memory[:-1]} GiB")
        assert spec.spark.conf["spark.executor.memory"] == "1g"
        own = [drill for drill in drills.values() if drill.stream == spec.name]
        assert own, "an example is drilled"
        assert Severity.ERROR not in {each.severity for each in lint_declared(spec, own)}


def test_the_catalogue_itself_needs_no_server() -> None:
    for name in STREAMS:
        file = REPOSITORY / "config" / "streams" / f"{name}.yaml"
        raw = yaml.safe_load(file.read_text())
        assert "connection" not in {**raw["source"], **raw["sink"]}, file.name
        assert raw["spark"]["master"].startswith("local"), file.name
