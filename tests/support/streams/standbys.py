"""Standbys that wait, with a sleeping process in the place of each."""

from __future__ import annotations

import subprocess
from pathlib import Path

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.lease import Claim, Lease
from streamwarden.lifecycle.supervision.standby import Fit, StandbyRecord

FIT = Fit(file="a", code="b", environment="c", command="d")
LEASE = Lease(
    stream="counts",
    holder="counts-1",
    claims=(Claim("stream:counts", 2),),
    process=None,
    acquired_at=1.0,
    renewed_at=1.0,
    expires_at=31.0,
)


class Standbys:
    """The folder of a stream's drivers; `add` puts a standby into it."""

    def __init__(self, drivers: Path) -> None:
        self.drivers = drivers
        self.children: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()

    def add(self, name: str, fit: Fit = FIT, *, ready: bool = True, work: Path | None = None) -> Path:
        """Args: work: the folder in which its process works."""
        folder = self.drivers / name
        folder.mkdir(parents=True, exist_ok=True)
        child = subprocess.Popen(["sleep", "600"], cwd=work)
        self.children.append(child)
        process = processes.identity(child.pid)
        assert process is not None
        files.write_process(folder, process)
        record = StandbyRecord(
            stream="counts", leader="counts-0", leader_process=None, prepared_at=0.0, fit=fit, watched={}
        )
        files.write_document(folder / files.STANDBY, record.to_document())
        if ready:
            (folder / files.READY).touch()
        return folder
