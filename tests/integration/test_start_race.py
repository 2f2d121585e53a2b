"""Many programs start one stream at once; a shell script stands in spark-submit's place."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from streamwarden.adapters import processes
from streamwarden.adapters.store import Store
from streamwarden.lifecycle import folder as files
from support.drivers import until

RACER = """
import sys
from pathlib import Path

from streamwarden.services.fleet.fleet import Fleet
from streamwarden.adapters.store import Store
from streamwarden.stream import StreamSpec

url, data, command = sys.argv[1:]
spec = StreamSpec(name="counts", job="/no/job.py", checkpoint=data + "/cp")
fleet = Fleet(Store(url), Path(data))
input()
started = fleet.start(spec, launched_by="racer", command=[command])
print(started.record.driver_id, started.reattached)
"""


def test_of_starts_in_several_processes_one_launches(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with Store(url) as store:
        store.migrate()
    submit = tmp_path / "submit.sh"
    submit.write_text("#!/bin/sh\nexec sleep 3000\n")
    submit.chmod(0o755)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, url, str(tmp_path), str(submit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    try:
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        told = [racer.communicate(timeout=120)[0].split() for racer in racers]
        assert sorted(reattached for _, reattached in told) == ["False", *["True"] * 3]
        assert len({driver_id for driver_id, _ in told}) == 1
        assert len(list((tmp_path / "drivers" / "counts").iterdir())) == 1
    finally:
        for folder in (tmp_path / "drivers").glob("*/*"):
            process = files.read_process(folder)
            if process is not None:
                processes.signal_group(process, signal.SIGKILL)
                until("its end", lambda f=folder: (f / files.EXIT).exists())  # type: ignore[misc]
