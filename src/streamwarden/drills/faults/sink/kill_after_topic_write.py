"""kill_after_topic_write: SIGKILL when the first records of a batch are in the sink's topic and `commits/N` is absent.

The batch runs again and writes its records a second time. The drill shows what readers that drop repeated event ids
get, and how many records other readers get twice.
"""

from dataclasses import dataclass
from typing import ClassVar

from streamwarden.drills.faults.base import Description, LiveUse
from streamwarden.drills.faults.sink.kill_after_database_commit import KillAfterDatabaseCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class KillAfterTopicWrite(KillAfterDatabaseCommit):
    """Proof: that of KillDriver, and the topic has records of batch N."""

    kind: str = "kill_after_topic_write"
    event: ClassVar[str] = "a crash while a batch was being written to its topic"
    proof: ClassVar[str] = "That of `kill_driver`, and the topic has records of N."
    recovery: ClassVar[str] = "The start that follows; the report says how many records were written twice."
    live: ClassVar[LiveUse] = LiveUse(
        allowed=False,
        reason="the records of the batch stay in the topic twice, and not every reader drops repeated event ids",
    )
    missed: ClassVar[str] = "no batch was caught between its first record in the topic and its commit"
    place: ClassVar[str] = "topic"
    service: ClassVar[str] = "broker"
    description: ClassVar[Description] = Description(
        does="Sends SIGKILL to the driver when the sink's topic has the first records of batch N and `commits/N` is "
        "absent.",
        promise="The batch runs again and writes its records again: Spark's Kafka sink is at-least-once.",
        seen="Records were in the topic twice. Readers that drop repeated event ids got each row once.",
        next_step="Let the readers of the topic drop repeated event ids.",
    )
