"""kill_after_topic_write: SIGKILL when the first records of a batch are in the sink's topic and `commits/N` is absent.

The batch runs again and writes its records a second time. The drill shows what readers that drop repeated event ids
get, and how many records other readers get twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamwarden.drills.faults.kill_after_database_commit import KillAfterDatabaseCommit


@dataclass(frozen=True, slots=True)
class KillAfterTopicWrite(KillAfterDatabaseCommit):
    """Proof: that of KillDriver, and the topic has records of batch N."""

    event: ClassVar[str] = "a crash while a batch was being written to its topic"
    missed: ClassVar[str] = "no batch was caught between its first record in the topic and its commit"
    place: ClassVar[str] = "topic"
    service: ClassVar[str] = "broker"
