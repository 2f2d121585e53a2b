"""What a fork's job does outside of the drill's folder is recorded: its own code alone, not that of Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.drills.records.outside import Outside, Trace
from streamwarden.lifecycle.driver_folder import OUTSIDE
from streamwarden.services.forks.working_folder import WORK
from streamwarden.spark.driver.outside import JobCode, outside_of, trace_of, watch_outside
from streamwarden.stream.spec import StreamSpec

JOB = """
import os, pathlib, socket, sqlite3, subprocess, tempfile, threading

pathlib.Path("inside").touch()
open("inside").read()
pathlib.Path(DATA, "marker").touch()
pathlib.Path(DATA, "marker").touch()
open(DATA + "/read-only").read()
sqlite3.connect(DATA + "/seen.db").close()
os.rename("inside", DATA + "/moved")
pathlib.Path("folder", "through").write_text("a link leads outside")
with tempfile.TemporaryDirectory() as scratch, tempfile.NamedTemporaryFile():
    pass
open(os.devnull, "w").close()
server = socket.create_server(("127.0.0.1", 0))
thread = threading.Thread(target=lambda: socket.create_connection(server.getsockname()).close())
thread.start(); thread.join()
subprocess.run(["true"])
print(server.getsockname()[1])
"""

RUN = """
import runpy, sys
from streamwarden.spark.driver.outside import watch_outside
from streamwarden.stream.spec import StreamSpec
watch_outside(StreamSpec(name=sys.argv[1], job=sys.argv[2], checkpoint="/c", data=sys.argv[3]))
runpy.run_path(sys.argv[2], init_globals={"DATA": sys.argv[4]})
"""


def executed(root: Path, name: str) -> tuple[list[tuple[str, str]], str]:
    """What was recorded of a run of the job in a process of its own, and what it printed."""
    job, data, work = root / "project" / "job.py", root / "data", root / "data" / "drills" / "run" / WORK
    for folder in (job.parent, work, data / "folder"):
        folder.mkdir(parents=True)
    (work / "folder").symlink_to(data / "folder")
    (data / "read-only").touch()
    job.write_text(JOB)
    done = subprocess.run(
        [sys.executable, "-c", RUN, name, str(job), str(work), str(data)],
        cwd=work,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    record = work.parent / OUTSIDE
    lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    return [(line["kind"], line["what"]) for line in lines], done.stdout.strip()


def test_what_the_jobs_own_code_changes_or_connects_to_is_recorded_once(tmp_path: Path) -> None:
    found, port = executed(tmp_path, "s__fork_1")
    data = tmp_path / "data"
    files = [f"{data}/{name}" for name in ("marker", "seen.db", "moved", "folder/through")]
    assert found[0] == (Trace.WATCHED, "s__fork_1")
    assert [what for kind, what in found if kind == Trace.FILE] == files
    assert [what for kind, what in found if kind == Trace.SERVER] == [f"127.0.0.1:{port}"]
    assert [what for kind, what in found if kind == Trace.PROGRAM] == ["true"]


def test_an_event_that_cannot_be_recorded_is_missed_and_not_silently_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks: list[Any] = []
    monkeypatch.setattr("sys.addaudithook", hooks.append)
    monkeypatch.setattr(JobCode, "acts", lambda code, frame: True)
    work = tmp_path / WORK
    watch_outside(StreamSpec(name="s__fork_1", job="/p/job.py", checkpoint="/c", data=str(work)))
    hooks[0]("open", (object(),))
    kinds = [json.loads(line)["kind"] for line in (tmp_path / OUTSIDE).read_text().splitlines()]
    assert kinds == [Trace.WATCHED, Trace.MISSED]


def test_the_stream_itself_is_not_watched(tmp_path: Path) -> None:
    assert executed(tmp_path, "s")[0] == []


@pytest.mark.parametrize(
    ("event", "args", "trace"),
    [
        ("open", ("/a", "r", os.O_RDONLY), None),
        ("open", (b"/a", None, os.O_WRONLY | os.O_CREAT), (Trace.FILE, "/a")),
        ("open", (3, "w", os.O_WRONLY), None),
        ("os.rename", ("/a", "/b", -1, -1), (Trace.FILE, "/b")),
        ("socket.connect", (None, ("db", 5432)), (Trace.SERVER, "db:5432")),
        ("socket.connect", (None, "/run/x.sock"), (Trace.SERVER, "/run/x.sock")),
        ("import", ("os",), None),
    ],
)
def test_an_event_that_may_change_something_is_a_trace(
    event: str, args: tuple[object, ...], trace: tuple[str, str] | None
) -> None:
    assert trace_of(event, args) == trace


@pytest.mark.parametrize("path", ["inside", "/dev/null", ":memory:", "/x/__pycache__/a.pyc"])
def test_what_is_inside_or_keeps_nothing_is_not_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert outside_of(path, tmp_path) is None


def test_state_is_told_from_the_caches_of_libraries() -> None:
    found = Outside(files=("/data/marker", "/home/me/.cache/fonts"), servers=("db:5432",), programs=("curl",))
    assert found.state == ("/data/marker",)
    assert "the job wrote /data/marker, outside" in str(found.unprovable)
    assert list(found.unproven()) == [
        "not compared: what the job wrote to /home/me/.cache/fonts",
        "not compared: what the job sent to or read from db:5432 by itself",
        "not compared: what the programs that the job started did (curl)",
    ]
    assert Outside(servers=("db:5432",)).unprovable is None
    changed = Outside(changed=("/data/marker",))
    assert "/data/marker changed outside of the drill's folder while it ran, and no other" in str(changed.unprovable)
    assert list(changed.unproven()) == []
    others = Outside(changed=("/data/marker",), beside=("orders",), listed=20)
    assert others.unprovable is None
    assert list(others.unproven()) == [
        "not compared: /data/marker, which changed outside of the drill's folder while it ran; the writer is not "
        "known, since the drivers of orders ran, too",
        "not compared: the files around the drill beyond the first 20",
    ]
    commanded = replace(others, commands=("docker stop db", "docker start db"), listed=None)
    assert commanded.unprovable is None
    assert str(*commanded.unproven()).endswith("since the drivers of orders and the drill's own commands ran, too")
    unwatched = "not compared: what the job did outside of the drill's folder, which was not recorded"
    assert list(Outside(recorded=False).unproven()) == [unwatched]
