"""A warm standby: a second driver process of a stream that waits to be promoted, with its Spark session up.

A standby has a driver's folder and its supervisor process, and neither lease nor record in the store: it is no driver
until a launch hands it a lease. The launch decides as for any other driver; it only saves the start of a process.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from streamwarden.clusters import manager_of
from streamwarden.lifecycle.driver import DriverEvent, ProcessIdentity
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import Standby, StreamSpec
from streamwarden.units import Seconds

ORPHANED_AFTER: Final[Seconds] = 120.0
"""Seconds that a standby waits after its leader's end: a restart that follows a longer pause starts a new process."""

ANSWERED_WITHIN: Final[Seconds] = 20.0
"""Seconds within which the JVM of a standby must have answered its Python half, or the standby is not used."""

STANDBY: Final = "standby"
"""Kind of the event that a driver records when the state of its standby changes; see `StandbyState`."""

PROMOTED: Final = "promoted"
"""Kind of the event of a driver that was a standby before; `waited`: seconds since it was ready."""

NOT_USED: Final = "standby_not_used"
"""Kind of the event of a driver that was started although a standby waited; `because` names what differs."""


def can_wait(spec: StreamSpec) -> bool:
    """Whether a second driver of the stream can wait on its host: it has no executors, and its query no end."""
    here = spec.spark.deploy_mode is DeployMode.CLIENT and not manager_of(spec.spark.master).has_executors
    return here and not spec.ends


def is_kept(spec: StreamSpec) -> bool:
    """Whether the stream has a standby."""
    return spec.standby is Standby.WARM and can_wait(spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Digests of everything that a driver is started with. Of two starts with the same ones either may do the work of
    the other.

    Args:
        file: the resolved stream; code: the job's files and the packages; environment: its variables; command: of
            spark-submit, where Airflow's hook built one.
    """

    file: str
    code: str
    environment: str
    command: str

    def differences(self, other: "Fit") -> tuple[str, ...]:
        """What differs, for people."""
        mine, theirs = asdict(self), asdict(other)
        return tuple(_SHOWN[name] for name in mine if mine[name] != theirs[name])


_SHOWN: Final = {
    "file": "the stream's file",
    "code": "the job's code or a package",
    "environment": "the environment of the start",
    "command": "the command of Airflow's connection",
}


def fit_of(
    document: Mapping[str, Any],
    code: Mapping[str, Any],
    environment: Mapping[str, str],
    command: Sequence[str] | None,
) -> Fit:
    """The fit of a start. Pure.

    Args:
        document: the resolved spec; code: see `deployed_code.code_of`.
        environment: the driver's variables, without the one that names its folder.
    """
    return Fit(
        file=digest(document),
        code=digest(code),
        environment=digest(environment),
        command=digest(None if command is None else list(command)),
    )


def digest(document: object) -> str:
    """A digest of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyRecord:
    """What a standby was prepared for; `standby.json` of its folder.

    Args:
        leader: id of the driver that it waits for, and `leader_process`, its JVM. Of one that an upgrade prepared:
            empty, and the process that upgrades the stream.
        watched: path -> modification time (ns) and size of the stream's file and the job's files as it was prepared.
    """

    stream: str
    leader: str
    leader_process: ProcessIdentity | None
    prepared_at: float
    fit: Fit
    watched: Mapping[str, Sequence[int]]

    def to_document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "StandbyRecord":
        """The record of a JSON object. Raises KeyError or TypeError for another object."""
        process = document["leader_process"]
        own = {field.name: document[field.name] for field in fields(cls)}
        leader = ProcessIdentity(**process) if process else None
        return cls(**{**own, "fit": Fit(**document["fit"]), "leader_process": leader})


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyState:
    """The standby of a living driver, as the driver reported it last.

    Args:
        ready: it waits; False: it is starting.
        driver_id: the id that it has as a driver once it is promoted.
    """

    driver_id: str
    ready: bool
    pid: int | None
    since: float


def standby_event(leader: str, state: StandbyState | None, at: float) -> DriverEvent:
    """The event that keeps `state` with the leader; None: it has none."""
    detail = {} if state is None else {"driver_id": state.driver_id, "ready": str(state.ready).lower()}
    if state is not None and state.pid is not None:
        detail["pid"] = str(state.pid)
    return DriverEvent(driver_id=leader, at=at, kind=STANDBY, detail=detail)


def standby_state(events: Sequence[DriverEvent]) -> StandbyState | None:
    """The standby of the driver with these events; None: it has none."""
    newest = max((event for event in events if event.kind == STANDBY), key=lambda event: event.at, default=None)
    if newest is None or "driver_id" not in newest.detail:
        return None
    pid = newest.detail.get("pid")
    return StandbyState(
        driver_id=newest.detail["driver_id"],
        ready=newest.detail["ready"] == "true",
        pid=int(pid) if pid else None,
        since=newest.at,
    )
