"""The faults that a drill can name."""

from typing import Annotated, Final

from streamwarden.drills.faults.base import ExpectedEnd, Fault, FaultContext, LiveUse, Proof, RefusalFault, by_kind
from streamwarden.drills.faults.checkpoint_damage import CheckpointDamage
from streamwarden.drills.faults.driver.clock_step import ClockStep
from streamwarden.drills.faults.driver.controlled_restart import ControlledRestart
from streamwarden.drills.faults.driver.freeze_driver import FreezeDriver
from streamwarden.drills.faults.driver.kill_driver import KillDriver
from streamwarden.drills.faults.driver.kill_executor import KillExecutor
from streamwarden.drills.faults.input.input_changed import InputDoubled, InputLate, InputOutOfOrder
from streamwarden.drills.faults.input.input_gone import InputGone
from streamwarden.drills.faults.service_outage import ServiceOutage
from streamwarden.drills.faults.sink.kill_after_database_commit import KillAfterDatabaseCommit
from streamwarden.drills.faults.sink.kill_after_topic_write import KillAfterTopicWrite
from streamwarden.drills.faults.sink.sink_failing import SinkFailing
from streamwarden.drills.faults.sink.sink_locked import SinkLocked
from streamwarden.drills.faults.sink.sink_slow import SinkSlow
from streamwarden.drills.faults.topic.partitions_added import PartitionsAdded
from streamwarden.drills.faults.topic.retention_passed import RetentionPassed
from streamwarden.drills.faults.topic.topic_recreated import TopicRecreated
from streamwarden.drills.records.codec import ByKind

FAULTS: Final[dict[str, type[Fault]]] = by_kind(
    ControlledRestart,
    KillDriver,
    FreezeDriver,
    KillAfterDatabaseCommit,
    KillAfterTopicWrite,
    KillExecutor,
    ServiceOutage,
    PartitionsAdded,
    RetentionPassed,
    TopicRecreated,
    CheckpointDamage,
    InputGone,
    InputDoubled,
    InputLate,
    InputOutOfOrder,
    SinkFailing,
    SinkSlow,
    SinkLocked,
    ClockStep,
)
"""The faults by their kinds, in the order of the documentation."""

AnyFault = Annotated[Fault, ByKind(FAULTS)]
"""The type of a field that holds one of them."""

__all__ = [
    "FAULTS",
    "AnyFault",
    "ExpectedEnd",
    "Fault",
    "FaultContext",
    "KillDriver",
    "LiveUse",
    "Proof",
    "RefusalFault",
]
