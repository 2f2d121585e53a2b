"""The faults that a drill can name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamwarden.drills.faults.base import Aftermath, Fault, FaultContext, LiveUse, Proof, RefusalFault
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
from streamwarden.drills.records.sections import FaultKind

FAULTS: Final[Mapping[FaultKind, Fault]] = {
    FaultKind.CONTROLLED_RESTART: ControlledRestart(),
    FaultKind.KILL_DRIVER: KillDriver(),
    FaultKind.FREEZE_DRIVER: FreezeDriver(),
    FaultKind.KILL_AFTER_DATABASE_COMMIT: KillAfterDatabaseCommit(),
    FaultKind.KILL_AFTER_TOPIC_WRITE: KillAfterTopicWrite(),
    FaultKind.KILL_EXECUTOR: KillExecutor(),
    FaultKind.SERVICE_OUTAGE: ServiceOutage(),
    FaultKind.PARTITIONS_ADDED: PartitionsAdded(),
    FaultKind.RETENTION_PASSED: RetentionPassed(),
    FaultKind.TOPIC_RECREATED: TopicRecreated(),
    FaultKind.CHECKPOINT_DAMAGE: CheckpointDamage(),
    FaultKind.INPUT_GONE: InputGone(),
    FaultKind.INPUT_DOUBLED: InputDoubled(),
    FaultKind.INPUT_LATE: InputLate(),
    FaultKind.INPUT_OUT_OF_ORDER: InputOutOfOrder(),
    FaultKind.SINK_FAILING: SinkFailing(),
    FaultKind.SINK_SLOW: SinkSlow(),
    FaultKind.SINK_LOCKED: SinkLocked(),
    FaultKind.CLOCK_STEP: ClockStep(),
}

__all__ = ["FAULTS", "Aftermath", "Fault", "FaultContext", "KillDriver", "LiveUse", "Proof", "RefusalFault"]
