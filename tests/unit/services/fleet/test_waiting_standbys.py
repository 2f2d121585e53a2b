"""Standbys that wait, with a sleeping process in the place of each: which one a launch takes, and who may end it."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.supervision.standby import ANSWERED_WITHIN, Fit
from streamwarden.services.fleet.standbys.waiting import (
    changed,
    dismiss,
    dismiss_all,
    give_back,
    promote,
    signature,
    take,
    waiting,
)
from support.spark.drivers import until
from support.streams.standbys import FIT, LEASE, Standbys


@pytest.fixture
def standbys(tmp_path: Path) -> Iterator[Standbys]:
    made = Standbys(tmp_path / "drivers" / "counts")
    yield made
    made.close()


def test_a_launch_takes_one_that_fits_and_no_other_launch_can(standbys: Standbys) -> None:
    folder = standbys.add("counts-1")
    first, second = take(standbys.drivers, FIT, time.time()), take(standbys.drivers, FIT, time.time())
    assert first.folder == folder
    assert second.folder is None
    assert waiting(standbys.drivers) == []


def test_one_with_another_digest_is_never_taken_and_is_ended(standbys: Standbys) -> None:
    folder = standbys.add("counts-1", Fit(file="a", code="older", environment="c", command="d"))
    choice = take(standbys.drivers, FIT, time.time())
    assert choice.folder is None
    assert choice.because == "the job's code or a package changed since it was prepared"
    assert (folder / files.DISMISSED).exists()


def test_one_that_still_starts_is_not_taken(standbys: Standbys) -> None:
    standbys.add("counts-1", ready=False)
    assert take(standbys.drivers, FIT, time.time()).because == "it was not ready yet, or did not answer"


def test_one_whose_jvm_no_longer_answers_is_not_taken(standbys: Standbys) -> None:
    standbys.add("counts-1")
    assert take(standbys.drivers, FIT, time.time() + ANSWERED_WITHIN + 1).folder is None


def test_one_that_is_paused_is_not_taken(standbys: Standbys) -> None:
    standbys.add("counts-1")
    os.kill(standbys.children[0].pid, signal.SIGSTOP)
    (standby,) = waiting(standbys.drivers)
    until("the pause", lambda: processes.is_stopped(standby.process))
    assert take(standbys.drivers, FIT, time.time()).folder is None


def test_one_that_ended_is_not_seen(standbys: Standbys) -> None:
    standbys.add("counts-1")
    standbys.children[0].kill()
    standbys.children[0].wait()
    assert waiting(standbys.drivers) == []


def test_of_two_that_fit_the_newer_is_taken_and_the_other_ended(standbys: Standbys) -> None:
    older, newer = standbys.add("counts-1"), standbys.add("counts-2")
    assert take(standbys.drivers, FIT, time.time()).folder == newer
    assert (older / files.DISMISSED).exists()


def test_one_that_was_taken_is_not_dismissed_any_more_except_by_its_launch(standbys: Standbys) -> None:
    folder = standbys.add("counts-1")
    take(standbys.drivers, FIT, time.time())
    assert not dismiss(folder)
    give_back(folder)
    assert (folder / files.DISMISSED).exists()


def test_one_that_was_dismissed_is_not_taken(standbys: Standbys) -> None:
    standbys.add("counts-1")
    assert dismiss_all(standbys.drivers) == 1
    assert take(standbys.drivers, FIT, time.time()).folder is None


def test_a_promotion_hands_over_the_lease_and_wakes_the_standby(standbys: Standbys) -> None:
    folder = standbys.add("counts-1")
    os.mkfifo(folder / files.GO)
    pipe = os.open(folder / files.GO, os.O_RDWR | os.O_NONBLOCK)
    wake = select.poll()
    wake.register(pipe, select.POLLIN)
    assert wake.poll(0) == []
    promote(folder, LEASE)
    assert wake.poll(5000) != []
    assert files.read_lease(folder) == LEASE
    os.close(pipe)


def test_a_promotion_does_not_wait_for_a_standby_that_has_no_pipe(standbys: Standbys) -> None:
    folder = standbys.add("counts-1")
    promote(folder, LEASE)
    assert until("the lease", lambda: files.read_lease(folder)) == LEASE


def test_a_file_that_was_written_or_removed_since_is_a_change(tmp_path: Path) -> None:
    job, gone = tmp_path / "job.py", tmp_path / "gone.py"
    job.write_text("a = 1\n")
    watched = {str(job): list(signature(job)), str(gone): []}
    assert not changed(watched)
    job.write_text("a = 12\n")
    assert changed(watched)
    assert changed({str(gone): [1, 2]})
