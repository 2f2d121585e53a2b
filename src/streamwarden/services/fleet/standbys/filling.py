"""Fills up the pool of a driver: `python -m streamwarden.services.fleet.standbys.filling FOLDER`.

The driver's supervisor process runs this, as it runs `preparing`, with the environment of the driver's launch. Drivers
that ask at the same time wait for each other: together they prepare no more standbys than the project wants.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from streamwarden import disk
from streamwarden.config.loading import load_catalog
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.forks.places import is_fork
from streamwarden.lifecycle.location import DataUrl
from streamwarden.lifecycle.supervision.standby import StandbyRecord
from streamwarden.services.fleet.exits.driver_ids import new_driver_id
from streamwarden.services.fleet.launching.launch import driver_environment
from streamwarden.services.fleet.standbys.pool import WORK, pool_folder, sweep_pool, use
from streamwarden.services.fleet.standbys.pool_start import of_forks, pool_sizes, pool_start
from streamwarden.services.fleet.standbys.preparing import begin_standby, carry_out, next_spec
from streamwarden.services.fleet.standbys.waiting import waiting
from streamwarden.stream.spec import StreamSpec

_LOCK = ".lock"


def main(argv: Sequence[str]) -> int:
    """Fill up the pool of the driver of the folder `argv[0]`; what goes wrong is in that driver's log."""
    return carry_out(fill, Path(argv[0]))


def fill(driver: Path, environ: Mapping[str, str]) -> Path | None:
    """Find out which standbys fit the stream and its forks; start one if there are too few, and return its folder.

    Raises ConfigError for a stream's file that is broken, ProcessError if the process cannot be started.
    """
    data = driver.parents[2]
    spec, pool = next_spec(driver), pool_folder(data)
    command = (files.read_document(driver / files.POOL) or {}).get("command")
    home = pool / new_driver_id("pool", time.time())
    disk.private_folder(pool, below=data)
    with disk.locked(pool / _LOCK):
        sweep_pool(pool)
        made = _fill(spec, spec, home, data, command, environ)
        if made is not None or not pool_sizes(spec).drills:
            return made
        return _fill(spec, _declared(spec, home, data), home, data, None, environ)


def _declared(spec: StreamSpec, home: Path, data: Path) -> StreamSpec:
    """The forks of the stream, which are made of its file: a launch in Airflow may have added to it."""
    place = DataUrl(spec.data_url) if spec.data_url else None
    return of_forks(load_catalog(Path(spec.project), data, data_url=place).get(spec.name), home / WORK)


def _fill(
    stream: StreamSpec,
    spec: StreamSpec,
    home: Path,
    data: Path,
    command: Sequence[str] | None,
    environ: Mapping[str, str],
) -> Path | None:
    """Have the stream use each standby that fits `spec`, and start one in `home` if there are too few."""
    if is_fork(spec.name):
        disk.private_folder(home / WORK, below=data)
    url = environ["STREAMWARDEN_STORE_URL"]
    environment = driver_environment(spec, data, url, environ, own_spark=command is None)
    start = pool_start(spec, data, environment, command)
    found = [] if start is None else [one for one in waiting(pool_folder(data)) if one.record.fit == start.fit]
    for standby in found:
        use(standby.folder, stream.name)
    if start is None or len(found) >= start.size:
        disk.remove_folder(home, below=data)
        return None
    disk.private_folder(home / files.USERS, below=data)
    use(home, stream.name)
    record = StandbyRecord(
        stream=stream.name, leader="", leader_process=None, prepared_at=time.time(), fit=start.fit, watched={}
    )
    return begin_standby(spec, home, data, environment, command, record)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
