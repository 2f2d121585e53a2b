"""A driver whose storage does not answer gives its lease up and ends, soon if the storage answers on another host; one
whose storage answers, however badly, goes on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.checkpoint.formats.layout import METADATA
from streamwarden.errors import StoreError
from streamwarden.lifecycle.driver import DriverEvent, ExitKind, ExitRecord
from streamwarden.lifecycle.hosts.elsewhere import ASK_AFTER, GIVE_UP_AFTER, STORAGE_SILENT, question
from streamwarden.spark.watches import storage
from streamwarden.spark.watches.storage import StorageWatch
from support.servers.bucket import bucket

CONTENT = '{"id":"q"}'


class Ended(BaseException):
    """In place of the end of this process."""


def end(code: int) -> None:
    raise Ended


class Watched:
    """A watch with a clock of its own, and a process in place of the JVM.

    Attributes:
        elsewhere: the host that reads the checkpoint, None, or the error of the store.
    """

    def __init__(self, checkpoint: str) -> None:
        self.now = 0.0
        self.given_up: list[ExitRecord] = []
        self.asked: list[float] = []
        self.elsewhere: str | Exception | None = None
        self.jvm = subprocess.Popen(["sleep", "60"])
        identity = processes.identity(self.jvm.pid)
        assert identity is not None
        self.watch = StorageWatch(
            checkpoint,
            None,
            identity,
            bound=20.0,
            ask_elsewhere=self.ask,
            reached_by=self.reached_by,
            give_up=self.given_up.append,
            clock=lambda: self.now,
        )

    def ask(self, checkpoint: str, connection: str | None, metadata: str) -> DriverEvent:
        self.asked.append(self.now)
        if isinstance(self.elsewhere, Exception):
            raise self.elsewhere
        return question("d", self.now, checkpoint=checkpoint, connection=connection, metadata=metadata)

    def reached_by(self, asked: DriverEvent) -> str | None:
        assert asked.detail["metadata"] == CONTENT
        assert not isinstance(self.elsewhere, Exception)
        return self.elsewhere

    def end(self) -> None:
        self.jvm.kill()
        self.jvm.wait(timeout=20)

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.watch.probe()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(storage.os, "_exit", end)
    return Watched(str(tmp_path))


def test_silence_past_the_bound_ends_both_halves_after_the_lease_was_given_up(watched: Watched) -> None:
    watched.wait(19)
    assert watched.given_up == []
    with pytest.raises(Ended):
        watched.wait(1)
    (record,) = watched.given_up
    assert (record.kind, record.error_class, record.is_failure) == (ExitKind.KILLED, STORAGE_SILENT, True)
    assert (record.signal, record.exit_code) == (None, None)  # the next driver puts a fence before it
    assert watched.jvm.wait(timeout=20) == -9


def test_a_storage_that_answers_on_another_host_is_given_up_soon(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / METADATA).write_text(CONTENT)
    watched.watch.ask()
    watched.elsewhere = "two"
    watched.wait(int(GIVE_UP_AFTER))
    assert watched.asked == [ASK_AFTER + 1]  # the first look finds the answer
    assert watched.given_up == []
    with pytest.raises(Ended):
        watched.wait(1)
    assert "for 15.0 s, and two gets an answer" in watched.given_up[0].message
    assert watched.jvm.wait(timeout=20) == -9


@pytest.mark.parametrize("elsewhere", [None, StoreError("down")])
def test_a_storage_that_answers_nowhere_is_waited_for(
    watched: Watched, tmp_path: Path, elsewhere: Exception | None
) -> None:
    """As long as the store does not answer either, the driver asks again."""
    (tmp_path / METADATA).write_text(CONTENT)
    watched.watch.ask()
    watched.elsewhere = elsewhere
    watched.wait(20)
    assert len(watched.asked) == (1 if elsewhere is None else 10)
    assert watched.given_up == []
    watched.end()


def test_a_silence_that_ends_is_asked_about_no_more(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / METADATA).write_text(CONTENT)
    watched.watch.ask()
    watched.wait(14)
    watched.elsewhere = "two"  # too late
    watched.watch.ask()
    watched.wait(int(ASK_AFTER))
    assert watched.given_up == []
    watched.end()


@pytest.mark.parametrize("answered", [False, True])
def test_an_object_store_counts_as_silent_only_if_it_has_answered_this_client_before(
    monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    """Spark's own client may have what this one lacks. As long as a query commits batches, the store answers it. And
    without another host that reads the checkpoint, Spark's client decides how long it waits."""
    monkeypatch.setattr(storage.os, "_exit", end)
    lake = bucket(monkeypatch)
    watched = Watched("s3a://lake/checkpoint")
    if answered:
        lake.pipe_file(f"s3a://lake/checkpoint/{METADATA}", CONTENT.encode())
        watched.watch.ask()
    monkeypatch.setattr(lake, "cat_file", refuse)
    watched.wait(100)
    watched.elsewhere = "two"
    watched.watch.committed()
    watched.wait(1)
    watched.watch.ask()
    watched.wait(14)
    assert watched.given_up == []
    if answered:
        with pytest.raises(Ended):
            watched.wait(1)
    watched.end()
    assert len(watched.given_up) == answered


def refuse(path: str) -> bytes:
    raise OSError(5, "no answer", path)


def test_a_store_that_is_away_too_keeps_no_driver_from_its_end(watched: Watched) -> None:
    def refuse(record: ExitRecord) -> None:
        raise OSError

    watched.watch._give_up = refuse
    with pytest.raises(Ended):
        watched.wait(20)
    assert watched.jvm.wait(timeout=20) == -9


def test_an_answer_begins_the_silence_anew_also_one_that_says_no(watched: Watched) -> None:
    watched.wait(19)
    watched.watch.ask()  # there is no such file
    watched.wait(20)
    assert watched.given_up == []
    watched.end()


def test_a_pause_of_the_whole_host_is_no_silence(watched: Watched) -> None:
    watched.wait(10)
    watched.now += 3600
    watched.watch.probe()
    assert watched.given_up == []
    watched.end()
