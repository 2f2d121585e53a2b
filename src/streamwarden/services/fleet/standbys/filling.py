"""Fills up the pool of a driver: `python -m streamwarden.services.fleet.standbys.filling FOLDER`.

The driver's supervisor process runs this, as it runs `preparing`, with the environment of the driver's launch. Drivers
that ask at the same time wait for each other: together they prepare no more standbys than the project wants.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from streamwarden import disk
from streamwarden.adapters.connections import remember_all
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.supervision.standby import StandbyRecord
from streamwarden.services.fleet.exits.driver_ids import new_driver_id
from streamwarden.services.fleet.launching.launch import driver_environment, spawn, write_folder
from streamwarden.services.fleet.standbys.pool import PoolStart, pool_folder, sweep_pool, use
from streamwarden.services.fleet.standbys.pool_start import pool_start
from streamwarden.services.fleet.standbys.preparing import next_spec
from streamwarden.services.fleet.standbys.waiting import waiting
from streamwarden.stream.spec import StreamSpec

_LOCK = ".lock"


def main(argv: Sequence[str]) -> int:
    """Fill up the pool of the driver of the folder `argv[0]`; what goes wrong is in that driver's log."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})  # the supervisor process blocks it, for itself alone
    remember_all(os.environ)
    try:
        fill(Path(argv[0]), os.environ)
    except (StreamwardenError, OSError) as error:
        print(f"streamwarden: no standby was prepared for the pool: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def fill(driver: Path, environ: Mapping[str, str]) -> Path | None:
    """Start one standby if the pool of this driver has too few; returns its folder, or None.

    Raises ConfigError for a stream's file that is broken, ProcessError if the process cannot be started.
    """
    spec, data = next_spec(driver), driver.parents[2]
    command = (files.read_document(driver / files.POOL) or {}).get("command")
    environment = driver_environment(spec, data, environ["STREAMWARDEN_STORE_URL"], environ, own_spark=command is None)
    start = pool_start(spec, data, environment, command)
    if start is None:
        return None
    pool = pool_folder(data)
    disk.private_folder(pool, below=data)
    with disk.locked(pool / _LOCK):
        sweep_pool(pool)
        if sum(standby.record.fit == start.fit for standby in waiting(pool)) >= start.size:
            return None
        return _prepare(spec, data, start, environment)


def _prepare(spec: StreamSpec, data: Path, start: PoolStart, environment: Mapping[str, str]) -> Path:
    now = time.time()
    folder = pool_folder(data) / new_driver_id("pool", now)
    write_folder(spec, folder, data, environment, command=start.command)
    (folder / files.USERS).mkdir(mode=0o700)
    use(folder, spec.name)
    record = StandbyRecord(stream=spec.name, leader="", leader_process=None, prepared_at=now, fit=start.fit, watched={})
    files.write_document(folder / files.STANDBY, record.to_document())
    spawn(spec, folder, data, start.command, environment)
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
