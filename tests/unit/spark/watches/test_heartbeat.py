"""The Python half's watch over the JVM; a shell process stands where the JVM would be killed."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.supervision.heartbeat import JVM_ANSWERS, JVM_SILENT, NOTICED_AFTER
from streamwarden.spark.watches.heartbeat import SUPERVISOR_GRACE, Heartbeat
from support.spark.drivers import until

BOUND = 30.0
STEP = 0.5


class Patient:
    """A heartbeat over a process whose answers the test gives; `pass_time` looks twice a second, as time goes by."""

    def __init__(self, folder: Path, jvm: subprocess.Popen[bytes]) -> None:
        self.now = 0.0
        self.events: list[tuple[str, str]] = []
        self.folder, self.jvm = folder, jvm
        identity = processes.identity(jvm.pid)
        assert identity is not None
        self.heartbeat = Heartbeat(
            lambda: None, folder, identity, bound=BOUND, report=self.tell, clock=lambda: self.now
        )

    def tell(self, kind: str, **detail: str) -> None:
        self.events.append((kind, detail["silent_for"]))

    def pass_time(self, seconds: float, *, answers: bool) -> None:
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            if answers:
                self.heartbeat._answered.set()
            self.heartbeat.probe()


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Patient]:
    with subprocess.Popen(["sleep", "60"]) as jvm:
        yield Patient(tmp_path, jvm)
        jvm.kill()


def test_while_the_jvm_answers_nothing_is_said(patient: Patient) -> None:
    patient.pass_time(120, answers=True)
    assert patient.heartbeat.beats
    assert patient.events == []


def test_a_long_pause_is_noticed_and_so_is_its_end_and_the_lease_is_kept(patient: Patient) -> None:
    patient.pass_time(BOUND - STEP, answers=False)
    assert patient.heartbeat.beats
    patient.pass_time(1, answers=True)
    assert patient.events == [(JVM_SILENT, f"{NOTICED_AFTER:.1f}"), (JVM_ANSWERS, f"{BOUND - STEP:.1f}")]
    assert not (patient.folder / files.UNRESPONSIVE).exists()


def test_past_the_bound_the_lease_is_not_renewed_and_the_supervisor_process_gets_the_report(patient: Patient) -> None:
    patient.pass_time(BOUND, answers=False)
    assert not patient.heartbeat.beats
    assert files.read_document(patient.folder / files.UNRESPONSIVE) == {"silent_for": BOUND}
    assert patient.jvm.poll() is None, "killing is the supervisor process's"


def test_without_a_supervisor_process_the_python_half_kills_the_jvm_and_records_it(patient: Patient) -> None:
    patient.pass_time(BOUND + SUPERVISOR_GRACE, answers=False)
    assert patient.jvm.wait(10) == -signal.SIGKILL
    outcome = files.read_outcome(patient.folder)
    assert outcome is not None
    assert (outcome.kind, outcome.error_class) == (ExitKind.KILLED, "JvmUnresponsive")
    assert "its Python half" in outcome.message


def test_a_question_that_is_never_answered_does_not_stop_the_watch(patient: Patient) -> None:
    """A frozen JVM blocks the thread that asks; the other one goes on to measure."""
    never = threading.Event()
    patient.heartbeat._ask = never.wait
    patient.heartbeat.start()
    try:
        patient.now = 0.9
        until("a look", lambda: patient.heartbeat._silence.lasted > 0, timeout=10)
        assert patient.heartbeat._silence.lasted == pytest.approx(0.9)
    finally:
        patient.heartbeat.close()
        never.set()
