"""Prepares the standby of a driver: `python -m streamwarden.services.fleet.standbys.preparing FOLDER`.

The driver's supervisor process runs this with its own environment, which is the one that the driver was launched with.
An upgrade prepares one of its own for the launch that it is about to make.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from streamwarden.adapters import processes
from streamwarden.adapters.connections import remember_all
from streamwarden.config.loading import load_catalog
from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.job_files import files_of
from streamwarden.lifecycle.location import DataUrl
from streamwarden.lifecycle.supervision.standby import StandbyRecord, is_kept
from streamwarden.redaction import remember, secrets_of
from streamwarden.services.fleet.exits.driver_ids import driver_folders, new_driver_id
from streamwarden.services.fleet.launching.launch import driver_environment, spawn, write_folder
from streamwarden.services.fleet.standbys.fit import fit
from streamwarden.services.fleet.standbys.waiting import signature
from streamwarden.stream.spec import StreamSpec


def main(argv: Sequence[str]) -> int:
    """Prepare a standby of the driver of the folder `argv[0]`; what goes wrong is in that driver's log."""
    return carry_out(prepare, Path(argv[0]))


def carry_out(act: Callable[[Path, Mapping[str, str]], object], driver: Path) -> int:
    """The program that a driver's supervisor process starts to prepare a standby: an exit code, and what went wrong in
    the driver's log."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})  # the supervisor process blocks it, for itself alone
    remember_all(os.environ)
    try:
        act(driver, os.environ)
    except (StreamwardenError, OSError) as error:
        print(f"streamwarden: no standby was prepared: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def prepare(leader: Path, environ: Mapping[str, str]) -> Path | None:
    """Start a standby beside the driver of `leader`; returns its folder, or None if the stream keeps none any more.

    Raises ConfigError for a stream's file that is broken, ProcessError if the process cannot be started.
    """
    spec = next_spec(leader)
    if not is_kept(spec):
        return None
    data, url = leader.parents[2], environ["STREAMWARDEN_STORE_URL"]
    command = (files.read_document(leader / files.LAUNCH) or {}).get("command")
    environment = driver_environment(spec, data, url, environ, own_spark=command is None)
    return _begin(spec, data, environment, command, leader.name, files.read_process(leader))


def prepare_next(spec: StreamSpec, data: Path, url: str) -> Path:
    """Start a standby for a launch that this process is about to make; returns its folder. It waits as long as this
    process lives. Raises as `prepare` does."""
    environment = driver_environment(spec, data, url, None, own_spark=True)
    return _begin(spec, data, environment, None, "", processes.identity(os.getpid()))


def _begin(
    spec: StreamSpec,
    data: Path,
    environment: Mapping[str, str],
    command: Sequence[str] | None,
    leader: str,
    leader_process: ProcessIdentity | None,
) -> Path:
    now = time.time()
    folder = driver_folders(data, spec.name) / new_driver_id(spec.name, now)
    record = StandbyRecord(
        stream=spec.name,
        leader=leader,
        leader_process=leader_process,
        prepared_at=now,
        fit=fit(spec, environment, command),
        watched=watched(spec),
    )
    return begin_standby(spec, folder, data, environment, command, record)


def begin_standby(
    spec: StreamSpec,
    folder: Path,
    data: Path,
    environment: Mapping[str, str],
    command: Sequence[str] | None,
    record: StandbyRecord,
) -> Path:
    """Start a process that waits in `folder`; returns the folder. Raises ProcessError if it cannot be started."""
    write_folder(spec, folder, data, environment, command=command)
    files.write_document(folder / files.STANDBY, record.to_document())
    spawn(spec, folder, data, command, environment)
    return folder


def watched(spec: StreamSpec) -> dict[str, tuple[int, ...]]:
    """The files whose change makes a standby useless, each with its signature now."""
    paths = [spec.file, spec.job, *map(str, files_of(Path(spec.job))), *spec.spark.py_files]
    return {path: signature(Path(path)) for path in dict.fromkeys(filter(None, paths))}


def next_spec(leader: Path) -> StreamSpec:
    """The stream as the next driver is launched with it: as its leader was, or as its file is since that was changed.

    A launch in Airflow adds what the operator and the connection say, which is known from the leader alone.
    """
    document: dict[str, Any] = files.read_spec(leader) or {}
    remember(*secrets_of(document))
    spec = spec_from_dict(document)
    written = signature(Path(spec.file)) if spec.file else ()
    if not written or written[0] <= (leader / files.SPEC).stat().st_mtime_ns:
        return spec
    data, url = leader.parents[2], DataUrl(spec.data_url) if spec.data_url else None
    return load_catalog(Path(spec.project), data, data_url=url).get(spec.name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
