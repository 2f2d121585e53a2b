"""The faults that a drill can name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamwarden.drills.faults.base import Fault, Proof, Scene, Strike
from streamwarden.drills.faults.controlled_restart import ControlledRestart
from streamwarden.drills.faults.kill_after_database_commit import KillAfterDatabaseCommit
from streamwarden.drills.faults.kill_after_topic_write import KillAfterTopicWrite
from streamwarden.drills.faults.kill_driver import KillDriver
from streamwarden.drills.spec import FaultKind

FAULTS: Final[Mapping[FaultKind, Fault]] = {
    FaultKind.CONTROLLED_RESTART: ControlledRestart(),
    FaultKind.KILL_DRIVER: KillDriver(),
    FaultKind.KILL_AFTER_DATABASE_COMMIT: KillAfterDatabaseCommit(),
    FaultKind.KILL_AFTER_TOPIC_WRITE: KillAfterTopicWrite(),
}

__all__ = [
    "FAULTS",
    "ControlledRestart",
    "Fault",
    "KillAfterDatabaseCommit",
    "KillAfterTopicWrite",
    "KillDriver",
    "Proof",
    "Scene",
    "Strike",
]
