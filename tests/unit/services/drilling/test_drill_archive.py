"""The folder of a run: journal and summary whole or not at all, and one process at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.jvm.environments import own
from streamwarden.errors import DrillError
from streamwarden.services.drilling.archive import DrillArchive

HOLD = """
import sys
from pathlib import Path
from streamwarden.services.drilling.archive import DrillArchive
with DrillArchive(Path(sys.argv[1])).lock("run-1"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_the_journal_and_the_summary_lie_in_the_runs_folder(tmp_path: Path) -> None:
    path = DrillArchive(tmp_path).write("run-1", {"verdict": "PASSED"}, "# Passed\n")
    assert Path(path) == tmp_path / "drills" / "run-1" / "journal.json"
    assert json.loads(Path(path).read_text()) == {"verdict": "PASSED"}
    assert (Path(path).parent / "report.md").read_text() == "# Passed\n"
    assert [each.name for each in Path(path).parent.iterdir() if each.name.endswith(".part")] == []


def test_a_run_id_from_outside_never_leaves_the_drills_folder(tmp_path: Path) -> None:
    with pytest.raises(DrillError):
        DrillArchive(tmp_path).folder("../../etc")


def test_a_second_process_is_kept_out_until_the_first_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        archive = DrillArchive(tmp_path, lock_wait=0.3)
        with pytest.raises(DrillError, match="another process"), archive.lock("run-1"):
            pytest.fail("two processes hold the lock")
        with archive.lock("run-2"):
            pass
        holder.kill()
        holder.wait()
        with DrillArchive(tmp_path, lock_wait=5.0).lock("run-1"):
            pass
    finally:
        holder.kill()
        holder.wait()


def test_versions_name_the_software_behind_the_verdict(tmp_path: Path) -> None:
    versions = DrillArchive(tmp_path).versions("flights")
    assert versions["pyspark"] == "4.3.0"
    assert {"python", "streamwarden", "great-expectations", "cpus"} <= versions.keys()
    other = DrillArchive(tmp_path, runs_in=lambda stream: replace(own(), version=f"of {stream}"))
    assert other.versions("flights")["pyspark"] == "of flights"


def test_the_tenure_of_a_run_is_held_by_one_process_and_freed_by_its_death(tmp_path: Path) -> None:
    script = HOLD.replace(".lock(", ".tenure(")
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        archive = DrillArchive(tmp_path)
        with archive.tenure("run-1") as ours:
            assert not ours
        holder.kill()
        holder.wait()
        with archive.tenure("run-1") as ours:
            assert ours
    finally:
        holder.kill()
        holder.wait()
