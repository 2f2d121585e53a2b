"""Many programs start one stream at once; a shell script stands in spark-submit's place."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.adapters.store import Store
from streamwarden.lifecycle import driver_folder as files
from support.spark.drivers import until

RACER = """
import sys
from pathlib import Path

from streamwarden.services.fleet.fleet import Fleet
from streamwarden.adapters.store import Store
from streamwarden.errors import LeaseHeld
from streamwarden.stream import StreamSpec

name, url, data, command = sys.argv[1:]
spec = StreamSpec(name=name, job="/no/job.py", checkpoint=data + "/cp")
fleet = Fleet(Store(url), Path(data))
input()
try:
    started = fleet.start(spec, launched_by="racer", command=[command])
except LeaseHeld:
    print("none", "refused")
else:
    print(started.record.driver_id, "reattached" if started.reattached else "launched")
"""


@pytest.mark.parametrize(
    ("names", "others"),
    [
        (["counts"] * 4, "reattached"),
        (["counts", "copied", "third", "fourth"], "refused"),
    ],
    ids=["one stream", "four streams"],
)
def test_of_starts_on_one_checkpoint_one_launches_also_through_a_symbolic_link(
    tmp_path: Path, names: Sequence[str], others: str
) -> None:
    """Every second process knows the data folder under another name."""
    data, link = tmp_path / "data", tmp_path / "link"
    data.mkdir()
    link.symlink_to(data)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with Store(url) as store:
        store.migrate()
    submit = tmp_path / "submit.sh"
    submit.write_text("#!/bin/sh\nexec sleep 3000\n")
    submit.chmod(0o755)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, name, url, str((data, link)[number % 2]), str(submit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, name in enumerate(names)
    ]
    try:
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        told = [racer.communicate(timeout=120)[0].split() for racer in racers]
        assert sorted(how for _, how in told) == sorted(["launched", *[others] * 3])
        assert len({driver_id for driver_id, _ in told if driver_id != "none"}) == 1
        assert len(list(data.glob("drivers/*/*"))) == 1
    finally:
        for folder in data.glob("drivers/*/*"):
            process = files.read_process(folder)
            if process is not None:
                processes.signal_group(process, signal.SIGKILL)
                until("its end", lambda f=folder: (f / files.EXIT).exists())  # type: ignore[misc]
