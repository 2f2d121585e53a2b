"""kill_after_topic_write: SIGKILL when first records of a batch are in the sink's topic and `commits/N` is not there.

The batch runs again, and what is in the topic of it is written a second time: so the drill shows what readers that drop
event ids have, and how many records the others have twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streamwarden.drills.faults.base import FaultContext
from streamwarden.drills.faults.kill_after_database_commit import KillAfterDatabaseCommit
from streamwarden.drills.ports import SinkProbe


@dataclass(frozen=True, slots=True)
class KillAfterTopicWrite(KillAfterDatabaseCommit):
    """Proof: that of KillDriver, and the topic has records of batch N."""

    missed: ClassVar[str] = "no batch was caught between its first record in the topic and its commit"
    place: ClassVar[str] = "topic"
    sink: ClassVar[str] = "kafka"

    def sink_probe(self, context: FaultContext) -> SinkProbe:
        return context.topic
