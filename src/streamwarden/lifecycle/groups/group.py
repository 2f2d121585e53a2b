"""A group: small streams that share one JVM. Each of them has a Python process, a lease and a life of its own. Pure.

The JVM belongs to the group's host, a process that is no stream's. A driver of the group is a Python process that the
host lets into the JVM, by a gateway and a session that nobody else uses. What the JVM has only once (memory, cores,
jars) is equal for all streams of a group; what a session has (`spark.sql.…`) is each stream's own.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from streamwarden.lifecycle.driver import ExitRecord, ProcessIdentity
from streamwarden.lifecycle.failures.exits import failure
from streamwarden.lifecycle.failures.outage_causes import GROUP_ENDED
from streamwarden.units import Seconds

FOLDER: Final = "groups"
"""The folder of the data folder that holds `GROUP/HOST/` for each JVM of a group."""

HOST: Final = "host.json"
"""File in the folder of a group's host: what its JVM was started for."""

DOOR: Final = "door.json"
"""File in the folder of a group's host that lets drivers in: see `Door`. Without it the host starts, or ends."""

EMPTY_FOR: Final[Seconds] = 60.0
"""Seconds after which a host without a driver ends: a restart that follows a pause finds the JVM still there."""

STARTS_WITHIN: Final[Seconds] = 100.0
"""Seconds within which a host must have let a driver in; less than its lease lasts before it renews that itself."""

POOL: Final = "spark.scheduler.pool"
"""Spark's property of a thread: the pool whose share of the cores its jobs get."""

_SESSION: Final = "spark.sql."
_OF_THE_JVM: Final = (
    "spark.sql.warehouse.dir",
    "spark.sql.extensions",
    "spark.sql.catalogImplementation",
    "spark.sql.globalTempDatabase",
    "spark.sql.cache.serializer",
    "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.streamingQueryListeners",
    "spark.sql.streaming.ui.",
    "spark.sql.hive.metastore.",
    "spark.sql.ui.",
)
"""Settings under `spark.sql.` that Spark reads once for all sessions of a JVM. Another one of this kind is found when a
driver is let in: its session does not take it."""

_OF_ONE_DRIVER: Final = ("spark.app.name", "spark.local.dir", "spark.executorEnv.PYTHONPATH")
"""Settings of one driver that the JVM has for the whole group, or that each driver gives to its own Python workers."""


def is_of_session(setting: str) -> bool:
    """Whether each stream of a group may have a value of its own."""
    return setting.startswith(_SESSION) and not setting.startswith(_OF_THE_JVM)


def session_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """What the session of one driver is set to, of everything that the driver would be started with."""
    return {name: value for name, value in properties.items() if is_of_session(name)}


def jvm_settings(properties: Mapping[str, str], group: str, temporary: Path) -> dict[str, str]:
    """What the JVM of the group is started with, of everything that one of its drivers would be started with."""
    shared = {name: value for name, value in properties.items() if not is_of_session(name)}
    shared = {name: value for name, value in shared.items() if name not in _OF_ONE_DRIVER}
    own = {"spark.app.name": f"group {group}", "spark.local.dir": str(temporary)}
    return {"spark.scheduler.mode": "FAIR"} | shared | own


def fit_of(settings: Mapping[str, str], environment: Mapping[str, str], folder: Path, version: str) -> str:
    """Digest of everything that the JVM of a group is started with: a driver joins only one that it could have started.

    Args:
        settings: see `jvm_settings`; `folder` is the host's, whose name is no difference.
        version: of Streamwarden.
    """
    plain = {name: value.replace(str(folder), "") for name, value in settings.items()}
    return hashlib.sha256(json.dumps([plain, dict(environment), version], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """What the JVM of a group was started for; `host.json` of the host's folder.

    Args:
        fit: see `fit_of`.
        unresponsive_after: see `RestartPolicy`, of the stream whose driver started it.
    """

    group: str
    fit: str
    unresponsive_after: Seconds

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "HostRecord":
        """The record of a JSON object. Raises KeyError for another object."""
        return cls(group=document["group"], fit=document["fit"], unresponsive_after=document["unresponsive_after"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where a host lets drivers in: a port of the loopback address, and the key that a driver must know."""

    port: int
    key: str
    jvm: ProcessIdentity

    def to_document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Door":
        """The door of a JSON object. Raises KeyError or TypeError for another object."""
        return cls(port=document["port"], key=document["key"], jvm=ProcessIdentity(**document["jvm"]))


def ended_with_group(group: str, jvm: ProcessIdentity, *, at: float, cut_batch: bool | None) -> ExitRecord:
    """The record of a driver whose group's JVM ended."""
    message = f"the JVM of the group {group} (pid {jvm.pid}) has ended, and with it every driver of the group"
    return failure(GROUP_ENDED, message, at=at, cut_batch=cut_batch, built=True)


_TAKEN_OVER: Final = ("--master", "--deploy-mode", "--name", "--conf", "--properties-file")
"""Options of spark-submit whose values are in the stream's settings already, or have no meaning for a group."""


def foreign_options(command: Sequence[str]) -> list[str]:
    """The options of a spark-submit command that a driver of a group cannot take over: it submits nothing. Pure."""
    return [option for option in command if option.startswith("--") and option not in (*_TAKEN_OVER, "--verbose")]
