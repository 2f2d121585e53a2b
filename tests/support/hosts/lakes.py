"""A stream on the hosts of a park with all that it has in an object store. The hosts share nothing else: each has a
data folder of its own."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from support.hosts.events import FILES, PARQUET, Events, listed
from support.hosts.host import LOCAL
from support.hosts.park import Park
from support.hosts.streams import HostedStream, Written
from support.servers.object_store import BUCKET

ROOT: Final = f"s3a://{BUCKET}"

_PUT: Final = re.compile(
    rf'^(\S+) - - \[(.+?)\] "PUT /{BUCKET}/((?:checkpoint|output)/[^?" ]+)\S* HTTP/1\.1" 200', re.MULTILINE
)
"""A file that was written, in the log of the store: from which address, when, and its key."""


class LakeEvents(Events):
    """Events in the object store."""

    def __init__(self, park: Park) -> None:
        self.count = self.files = 0
        self._park = park

    def put(self, name: str, text: str) -> None:
        self._park.at_lake(
            lambda lake: lake.client().put_object(Bucket=BUCKET, Key=f"input/{name}.json", Body=text.encode())
        )


class LakeStream(HostedStream):
    """From files into files."""

    def __init__(self, park: Park, job_says: str = "") -> None:
        super().__init__(
            park,
            job_says=job_says,
            source={**FILES, "path": f"{ROOT}/input", "max_files_per_trigger": 100},  # a batch takes some seconds
            sink={**PARQUET, "path": f"{ROOT}/output"},
            checkpoint=f"{ROOT}/checkpoint",
            quarantine=f"{ROOT}/quarantine",
            storage={"connection": "lake"},
            env={"AIRFLOW_CONN_LAKE": park.lake.connection(), "STREAMWARDEN_DATA": str(LOCAL / "var")},
        )
        self.events = LakeEvents(park)

    def written(self) -> list[Written]:
        """The files that were written, in order, by the log of the store, which counts in whole seconds. What took its
        name by a copy counts, too."""
        names = {host.address: name for name, host in self.park.hosts.items()}
        return [
            Written(_seconds(at), names.get(address, "?"), unquote(key))
            for address, at, key in _PUT.findall(self.park.lake.said())
        ]

    def _listed(self) -> list[Path]:
        """Copies of the files that the manifest of the output names."""
        copies = self.park.shared / "copies"
        self.park.at_lake(lambda lake: _fetch(lake.client(), copies))
        return [copies / path.removeprefix(f"{ROOT}/") for path in listed(copies / "output")]


def _fetch(client: object, folder: Path) -> None:
    """Copy the output; what was copied before is not copied again, as a file that is named does not change."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="output/")  # type: ignore[attr-defined]
    for key in [found["Key"] for page in pages for found in page.get("Contents", ())]:
        path = folder / key
        if not key.endswith("/") and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(BUCKET, key, str(path))  # type: ignore[attr-defined]


def _seconds(at: str) -> float:
    return datetime.strptime(at, "%d/%b/%Y %H:%M:%S").timestamp()
