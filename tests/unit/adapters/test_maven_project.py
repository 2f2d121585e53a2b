"""The jar of a stream's own Maven project. (A stand-in for `mvn`, as in test_maven; the real one builds
`spark_jobs/processors` in spark/jobs/test_device_heartbeats.)"""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.jvm.connectors import with_connector
from streamwarden.adapters.jvm.environments import own
from streamwarden.adapters.jvm.maven_project import build, built
from streamwarden.errors import ProcessError
from streamwarden.services.fleet.launching.deployed_code import code_of
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec

PACKAGES = """
pom=$4; shift 4
echo "$@" > "$(dirname "$0")/arguments"
mkdir "$(dirname "$pom")/target"; cat "$(dirname "$pom")/src/A.java" > "$(dirname "$pom")/target/processors-1.jar"
"""


@pytest.fixture
def pom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    environment = own()
    monkeypatch.setattr("streamwarden.adapters.jvm.environments.own", lambda: environment)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    folder = tmp_path / "processors"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "A.java").write_text("one")
    (folder / "pom.xml").write_text("<project/>")
    return folder / "pom.xml"


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program.with_name("arguments")


def test_it_is_built_once_against_the_jars_of_its_spark(
    pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = own()
    arguments = install(tmp_path, monkeypatch, PACKAGES)
    assert built(pom, environment.minor) is None
    jar = build(pom, environment)
    goal, classpath = arguments.read_text().split()
    assert goal == "package"
    assert any(Path(entry).name.startswith("spark-sql-api_") for entry in classpath.partition("=")[2].split(":"))
    assert sorted(file.name for file in pom.parent.iterdir()) == ["pom.xml", "src"], "nothing is written into it"
    install(tmp_path, monkeypatch, "exit 1")
    assert build(pom, environment) == built(pom, environment.minor) == jar


def test_changed_sources_and_another_spark_need_another_jar(
    pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, PACKAGES)
    environment = own()
    old = build(pom, environment)
    assert built(pom, (4, 1)) is None
    (pom.parent / "src" / "A.java").write_text("two")
    assert built(pom, environment.minor) is None
    assert build(pom, environment).read_text() == "two"
    assert not old.exists()


def test_a_driver_gets_it_and_its_sources_are_the_streams_code(
    pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, PACKAGES)
    plain = StreamSpec(name="a", job="/p/a.py", checkpoint="/c", project=str(tmp_path))
    spec = replace(plain, spark=SparkSpec(maven=str(pom)))
    with pytest.raises(ProcessError, match="its sources have changed") as refused:
        with_connector(spec, {}, own().minor)
    assert "prepare --maven" in str(refused.value)
    jar = build(pom, own())
    assert with_connector(spec, {"spark.jars": "/mine.jar"}, own().minor) == {"spark.jars": f"/mine.jar,{jar}"}
    assert sorted(code_of(spec)["files"]) == ["processors/pom.xml", "processors/src/A.java"]
    assert code_of(plain)["files"] == {}


@pytest.mark.parametrize(
    ("script", "observed"),
    [
        ("echo 'BucketTest: 1 failure'; exit 1", "BucketTest: 1 failure"),
        ("exit 0", "built 0 jars: none"),
        (f"{PACKAGES}\ncp $(dirname $pom)/target/processors-1.jar $(dirname $pom)/target/sources.jar", "built 2 jars"),
    ],
)
def test_a_build_that_fails_leaves_nothing(
    script: str, observed: str, pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, script)
    with pytest.raises(ProcessError, match=observed):
        build(pom, own())
    assert built(pom, own().minor) is None
    assert list((tmp_path / "environment").rglob("*.jar")) == []
