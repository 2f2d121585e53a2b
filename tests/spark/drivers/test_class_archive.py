"""`prepare` archives the classes of a driver; drivers use the archive, and start just as well without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.jvm.environments import own
from streamwarden.adapters.jvm.java import find_java
from streamwarden.errors import ProcessError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.fleet.launching import class_archive
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec, TriggerSpec
from support.spark.drivers import COUNTS, QUICK, Project, project

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SHARED = "source: shared objects file (top)"
"""What the JVM says of a class from an archive of the application's classes; `(top)` tells it from the JDK's own."""

RUNNER_CLASS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as it:
        it.publish(2)
        yield it


def run(made: Project, name: str) -> list[str]:
    """Run a stream to its end with a JVM that tells where each class came from; the lines of its log."""
    conf = QUICK | {"spark.driver.extraJavaOptions": QUICK["spark.driver.extraJavaOptions"] + " -Xlog:class+load"}
    spark = SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=conf)
    spec: StreamSpec = made.spec(name, COUNTS, trigger=TriggerSpec(available_now=True), spark=spark)
    driver = made.start(spec)
    ended = made.await_end(driver, timeout=240)
    assert ended.kind is ExitKind.COMPLETED, ended
    return (made.folder(driver) / files.LOG).read_text(errors="replace").splitlines()


def sources(log: list[str], name: str) -> list[str]:
    return [line for line in log if f" {name} source: " in line]


@pytest.fixture
def whole() -> Path:
    found = class_archive.find(own(), find_java())
    assert found is not None, "run: make setup"
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive folder of this test's own."""
    monkeypatch.setattr(class_archive, "_folder", lambda _: tmp_path / "archives")
    return tmp_path / "archives"


@pytest.mark.usefixtures("whole")
def test_a_driver_takes_its_classes_from_the_archive(made: Project) -> None:
    log = run(made, "archived")
    assert [SHARED in line for line in sources(log, RUNNER_CLASS)] == [True]
    assert sum(SHARED in line for line in log) > 5000


@pytest.mark.full  # in the first tier the driver of the next test starts without an archive
def test_an_archive_that_was_cut_off_is_not_used(made: Project, whole: Path, folder: Path) -> None:
    """A JVM that mapped it would be ended by the kernel."""
    folder.mkdir()
    archive = folder / whole.name
    archive.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    assert class_archive.find(own(), find_java()) is None
    assert not any(SHARED in line for line in run(made, "cut"))


def test_a_jvm_refuses_the_archive_of_another_and_runs_without_it(made: Project, folder: Path) -> None:
    folder.mkdir()
    content = b"no archive of this JVM" * 1000
    (folder / f"classes-{class_archive._key(own(), find_java())}-{len(content)}.jsa").write_bytes(content)
    assert class_archive.find(own(), find_java()) is not None
    assert not any(SHARED in line for line in run(made, "foreign"))


def test_each_build_of_java_has_an_archive_of_its_own(tmp_path: Path, folder: Path) -> None:
    folder.mkdir()
    java = tmp_path / "java"
    java.mkdir()
    (java / "release").write_text('JAVA_VERSION="17.0.1"')
    (folder / f"classes-{class_archive._key(own(), java)}-1.jsa").write_bytes(b"x")
    assert class_archive.find(own(), java) is not None
    (java / "release").write_text('JAVA_VERSION="17.0.2"')
    assert class_archive.find(own(), java) is None


def test_making_it_fails_in_words(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "bin").mkdir()
    broken = tmp_path / "bin" / "java"
    broken.write_text("#!/bin/sh\necho no such machine >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(ProcessError, match="no such machine") as caught:
        class_archive.make(own(), tmp_path)
    assert "streamwarden prepare" in caught.value.next_step
    assert list(folder.iterdir()) == []
