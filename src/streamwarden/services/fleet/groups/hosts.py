"""Finds the JVM of a group on this host, or starts it: the process of the group's host, with its supervisor process."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from streamwarden import disk
from streamwarden.adapters import processes
from streamwarden.adapters.jvm.environments import environment_of
from streamwarden.errors import ProcessError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.groups.group import (
    DOOR,
    FOLDER,
    HOST,
    Door,
    HostRecord,
    fit_of,
    jvm_settings,
)
from streamwarden.lifecycle.submission import submit_command
from streamwarden.services.fleet.launching.environment import common
from streamwarden.services.fleet.launching.launch import (
    SPAWN_TIMEOUT,
    begin,
    driver_settings,
    working_folder,
    write_properties,
)
from streamwarden.stream.spec import StreamSpec
from streamwarden.waiting import wait_until

PROGRAM: Final = "group_host.py"
LOCK: Final = ".lock"
"""File in the folder of a group, locked by who starts a host and by a host that ends because it is empty."""

MEMBERS: Final = "members.json"
"""File in the folder of a host: how many drivers it has let in."""

KEPT: Final = 5
"""Folders of ended hosts that are kept for each group."""

_NOT_OF_THE_JVM: Final = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "STREAMWARDEN_STORE_URL")
_OF_THE_JVM: Final = ("JAVA_", "JDK_", "SPARK_", "PYSPARK_", "HADOOP_", "YARN_")


def find_or_start(spec: StreamSpec, data: Path, environ: Mapping[str, str]) -> Path:
    """The folder of a host whose JVM the stream's driver would start with the same settings; it may not be ready yet.
    Of many drivers that ask at once one starts it. Raises ProcessError, OSError.

    Args:
        environ: the driver's variables. The JVM gets those that every driver has, whatever its stream.
    """
    assert spec.group is not None
    home = data / FOLDER / spec.group
    disk.private_folder(home, below=data)
    environment = {name: value for name, value in common(environ).items() if name not in _NOT_OF_THE_JVM}
    with disk.locked(home / LOCK):
        folder = home / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"
        settings = jvm_settings(driver_settings(spec, folder, data, environ), spec.group, folder / files.TEMPORARY)
        variables = {name: value for name, value in environment.items() if name.startswith(_OF_THE_JVM)}
        record = HostRecord(
            group=spec.group,
            fit=fit_of(settings, variables, folder, version("streamwarden")),
            unresponsive_after=spec.restart.unresponsive_after,
        )
        living = find(home, record.fit)
        if living is not None:
            return living
        _forget_older(home)
        _start(spec, folder, data, environment, settings, record)
    return folder


def find(home: Path, fit: str) -> Path | None:
    """The folder of the living host of this group with this fit; None: there is none."""
    for path in sorted(home.glob(f"*/{HOST}"), reverse=True):
        document, process = files.read_document(path) or {}, files.read_process(path.parent)
        if document.get("fit") == fit and process is not None and processes.is_alive(process):
            return path.parent
    return None


def await_door(folder: Path, within: float) -> Door | None:
    """The door of a host, once it is ready; None: it ends because it had no driver.

    Raises ProcessError if it does not get ready in time, or ended before.
    """

    def decided() -> bool:
        return not (folder / HOST).exists() or (folder / DOOR).exists() or (folder / files.EXIT).exists()

    settled = wait_until(decided, within=within, every=0.05)
    if (folder / files.EXIT).exists() or not settled:
        raise ProcessError(
            "the JVM of the group ended before it let a driver in"
            if settled
            else f"the JVM of the group has let no driver in for {within:.0f} s",
            expected="a JVM that starts with the settings that the streams of the group share",
            where=str(folder),
            next_step=f"read {files.LOG} there; if the host is busy, wait: the stream is started again",
        )
    document = files.read_document(folder / DOOR)
    return None if document is None else Door.from_document(document)


def write_door(folder: Path, door: Door) -> None:
    """Let drivers in from now on. Only this user can read the key."""
    files.write_document(folder / DOOR, door.to_document())


def shut_if(folder: Path, still_empty: bool) -> bool:
    """Let no driver in from now on; False: one has come meanwhile. To be called with the group's lock held."""
    if still_empty:
        for name in (HOST, DOOR):
            (folder / name).unlink(missing_ok=True)
    return still_empty


def has_ended(folder: Path) -> bool:
    """Whether the host of this folder lets nobody in any more."""
    process = files.read_process(folder)
    return not (folder / DOOR).exists() or process is None or not processes.is_alive(process)


def count_members(folder: Path) -> int:
    """How many drivers the JVM has; at least 1."""
    document: dict[str, Any] = files.read_document(folder / MEMBERS) or {}
    return max(1, int(document.get("count", 1)))


def _start(
    spec: StreamSpec,
    folder: Path,
    data: Path,
    environment: Mapping[str, str],
    settings: dict[str, str],
    record: HostRecord,
) -> None:
    disk.private_folder(folder / files.TEMPORARY, below=data)
    write_properties(folder, spec, settings)
    files.write_document(folder / HOST, asdict(record))
    runs_in = environment_of(spec.spark)
    command = submit_command(spec, folder, runner=runs_in.programs / PROGRAM, spark_submit=runs_in.submit)
    begin(command, folder, working_folder(spec, data), environment)

    def has_begun() -> bool:
        return files.read_process(folder) is not None or (folder / files.EXIT).exists()

    wait_until(has_begun, within=SPAWN_TIMEOUT, every=0.02)


def _forget_older(home: Path) -> None:
    """Remove the folders of hosts that ended, but for the newest."""
    ended = sorted((path.parent for path in home.glob(f"*/{files.EXIT}")), reverse=True)
    for folder in ended[KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)
