"""A driver whose storage does not answer gives its lease up and ends; one whose storage answers, however badly, goes
on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.spark.watches import storage
from streamwarden.spark.watches.storage import SILENT_CLASS, StorageWatch


class Ended(BaseException):
    """In place of the end of this process."""


def end(code: int) -> None:
    raise Ended


class Watched:
    """A watch with a clock of its own, and a process in place of the JVM."""

    def __init__(self, checkpoint: Path) -> None:
        self.now = 0.0
        self.given_up: list[ExitRecord] = []
        self.jvm = subprocess.Popen(["sleep", "60"])
        identity = processes.identity(self.jvm.pid)
        assert identity is not None
        self.watch = StorageWatch(
            str(checkpoint), identity, bound=20.0, give_up=self.given_up.append, clock=lambda: self.now
        )

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.watch.probe()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(storage.os, "_exit", end)
    return Watched(tmp_path)


def test_silence_past_the_bound_ends_both_halves_after_the_lease_was_given_up(watched: Watched) -> None:
    watched.wait(19)
    assert watched.given_up == []
    with pytest.raises(Ended):
        watched.wait(1)
    (record,) = watched.given_up
    assert (record.kind, record.error_class, record.is_failure) == (ExitKind.KILLED, SILENT_CLASS, True)
    assert (record.signal, record.exit_code) == (None, None)  # the next driver puts a fence before it
    assert watched.jvm.wait(timeout=20) == -9


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
    watched.jvm.kill()
    watched.jvm.wait(timeout=20)


def test_a_pause_of_the_whole_host_is_no_silence(watched: Watched) -> None:
    watched.wait(10)
    watched.now += 3600
    watched.watch.probe()
    assert watched.given_up == []
    watched.jvm.kill()
    watched.jvm.wait(timeout=20)
