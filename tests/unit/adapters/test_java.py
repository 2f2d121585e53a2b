"""Finding a Java that Spark can run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.adapters.jvm.java import find_java
from streamwarden.errors import ProcessError


def java(home: Path, version: str = "17.0.15", modules: str = "java.base jdk.incubator.vector") -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = java(tmp_path / "home"), java(tmp_path / "other")
    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, installed=tmp_path / "none") == home


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, good = java(tmp_path / "old", "1.8.0_292"), java(tmp_path / "good", "21.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")}, installed=tmp_path / "none") == good


def test_an_installed_java_is_found_without_any_setting(tmp_path: Path) -> None:
    java(tmp_path / "jvm" / "java-11", "11.0.2")
    good = java(tmp_path / "jvm" / "java-17")
    assert find_java({"PATH": ""}, installed=tmp_path / "jvm") == good


def test_no_java_names_the_one_command_to_run(tmp_path: Path) -> None:
    with pytest.raises(ProcessError) as caught:
        find_java({"PATH": str(tmp_path)}, installed=tmp_path / "none")
    assert caught.value.next_step == "run: apt-get install -y openjdk-17-jre-headless"


def test_each_tried_java_is_listed_with_its_shortcoming(tmp_path: Path) -> None:
    java(tmp_path / "jvm" / "a", "11.0.2")
    java(tmp_path / "jvm" / "b", "17.0.2", modules="java.base")
    with pytest.raises(ProcessError, match=r"Java 11.*lacks jdk\.incubator\.vector") as caught:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}, installed=tmp_path / "jvm")
    assert "no bin/java there" in caught.value.observed


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    script = '#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' >&2 || echo jdk.incubator.vector@17\n'
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(0o755)
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}, installed=tmp_path / "none") == home
