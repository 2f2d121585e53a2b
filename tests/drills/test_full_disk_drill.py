"""A drill fills the disk of its fork: a real file system of 64 MB, in a mount namespace of the drill's own process.

No privilege is needed for that where the kernel gives user namespaces to everybody. Where it gives none the test is
skipped, and says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from streamwarden.services.replay.replay import replay
from support.spark.drill_project import drill_project

pytestmark = pytest.mark.spark

RECORDS = 6_000
NAMESPACES = (["unshare", "--map-root-user", "--mount"], ["unshare", "--mount"])
"""Of a user who may make one of his own, and of root on a machine that gives none to others."""

MOUNT = 'mount -t tmpfs -o size=64m streamwarden "$0" && exec "$@"'

DRILL = """
import sys
from streamwarden.services.workspace import Workspace
with Workspace.open(project=sys.argv[1], data=sys.argv[2]) as workspace:
    print(workspace.drill_engine().run("drill").run_id)
"""


def on_a_small_disk(folder: Path, command: list[str]) -> list[str]:
    """The command, for which `folder` is a file system of 64 MB. Skips the test where none can be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    refused = ""
    for namespace in NAMESPACES:
        prefix = [*namespace, "sh", "-c", MOUNT, str(folder)]
        tried = subprocess.run([*prefix, "true"], capture_output=True, text=True)
        if tried.returncode == 0:
            return [*prefix, *command]
        refused = tried.stderr.strip()
    pytest.skip(f"no small file system can be mounted here: {refused}")


@pytest.mark.full  # in the first tier test_postgresql_drill has an outage, unit/lifecycle/failures the cause
def test_a_full_disk_ends_the_driver_and_with_room_again_nothing_is_lost(tmp_path: Path) -> None:
    replay(tmp_path / "flights", rows_per_file=250, limit=RECORDS)
    disk = tmp_path / "var" / "drills"
    filler, said = disk / "filler", tmp_path / "said"
    outage = {
        "service": "disk",
        "down": ["sh", "-c", f"dd if=/dev/zero of={filler} bs=4k 2>{said}; grep -q 'No space left' {said}"],
        "up": ["rm", "-f", str(filler)],
        "lasts": "2s",
    }
    with drill_project(
        tmp_path,
        inputs=tmp_path / "flights",
        fault="service_outage",
        batches=8,
        min_records=RECORDS,
        options={"outage": json.dumps(outage)},
    ) as workspace:
        script = tmp_path / "drill.py"
        script.write_text(DRILL)
        command = [sys.executable, str(script), str(workspace.project), str(workspace.data)]
        done = subprocess.run(on_a_small_disk(disk, command), capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        run = workspace.store.journals.get(done.stdout.split()[-1])
        assert run is not None
        assert run.passed, run.reason
        exits = [driver.exit for driver in workspace.store.drivers.history(run.facts["fork"]["stream"], 0.0)]
    seen, counts = run.facts["fault"]["evidence"], run.facts["reconciliation"]
    assert str(disk) in seen["service"]
    assert "No space left on device" in seen["said"]
    assert exits[0] is not None
    assert (exits[0].kind.value, exits[0].curable) == ("failed", True)
    assert "No space left on device" in exits[0].message
    assert exits[0].next_step.startswith("free space")
    assert run.facts["recovery"]["restarted"]
    assert (counts["records"], counts["exactly_once"]) == (RECORDS, True)
    assert counts["expected"] == counts["actual"] > 500
