"""Jars are resolved by Maven, whole or not at all. (A stand-in for `mvn` decides how it ends; the real one is run where
the jars are needed.)"""

import sys
from pathlib import Path

import pytest

from streamwarden.adapters.jvm import maven
from streamwarden.errors import ProcessError

COPIES = """
for argument in "$@"; do case $argument in -DoutputDirectory=*) folder=${argument#*=};; esac; done
mkdir -p "$folder"; echo one > "$folder/b.jar"; echo two > "$folder/a.jar"
"""


@pytest.fixture
def pom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    path = tmp_path / "kafka.xml"
    path.write_text("<project/>")
    return path


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_they_are_resolved_once(pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert maven.jars(pom) == ()
    install(tmp_path, monkeypatch, COPIES)
    found = maven.resolve(pom)
    assert [path.name for path in found] == ["a.jar", "b.jar"]
    install(tmp_path, monkeypatch, "exit 1")
    assert maven.resolve(pom) == maven.jars(pom) == found


def test_another_content_of_the_pom_is_another_set_and_the_older_one_goes(
    pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, COPIES)
    (old, *_) = maven.resolve(pom)
    pom.write_text("<project></project>")
    assert maven.jars(pom) == ()
    assert maven.resolve(pom)
    assert not old.exists()


def test_a_profile_has_jars_of_its_own_which_stay_beside_the_others(
    pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, f'{COPIES}\necho "$@" > {tmp_path}/arguments')
    usual = maven.resolve(pom)
    assert "-P" not in (tmp_path / "arguments").read_text()
    older = maven.resolve(pom, "3.5")
    assert "-P3.5" in (tmp_path / "arguments").read_text()
    assert older == maven.jars(pom, "3.5") != usual == maven.jars(pom)


def test_the_jars_of_another_pom_stay_whatever_its_name(
    pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`prepare --kafka` beside a running `dev kafka`, whose pom is kafka-broker.xml."""
    install(tmp_path, monkeypatch, COPIES)
    broker = tmp_path / "kafka-broker.xml"
    broker.write_text("<project/>")
    found = maven.resolve(broker)
    assert maven.resolve(pom)
    assert maven.jars(broker) == found


def test_two_at_once_have_the_jars_of_the_first(pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one ends its download when the first one uses its jars already."""
    first = tmp_path / "environment/share/streamwarden/jars/kafka" / maven.resolved_as(pom)
    install(tmp_path, monkeypatch, f"{COPIES}\nmkdir {first}; echo first > {first}/a.jar")
    assert [path.read_text() for path in maven.resolve(pom)] == ["first\n"]
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_a_maven_that_fails_half_way_leaves_nothing(pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, f"{COPIES}\necho 'Could not resolve dependencies'; exit 1")
    with pytest.raises(ProcessError, match="Could not resolve dependencies"):
        maven.resolve(pom)
    assert maven.jars(pom) == ()
    assert list((tmp_path / "environment").rglob("*.jar")) == []


def test_error_without_maven_names_the_alternatives(pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProcessError, match=r"spark\.jars\.packages"):
        maven.resolve(pom)
