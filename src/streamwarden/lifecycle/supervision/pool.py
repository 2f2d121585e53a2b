"""A pool of warm standbys: processes of a host that wait for any stream with the same Spark settings.

A standby of a pool knows no stream before a launch takes it. Then it gets the stream's spec, and sets the settings that
a session takes at any time. Everything else that a driver is started with must be equal, and is compared by digest.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from streamwarden.lifecycle.driver import DriverEvent
from streamwarden.lifecycle.settings import (
    CHECKPOINT_FILES,
    DELTAS,
    FORMAT,
    IN_MEMORY,
    RETAIN,
    STATE_STORE,
)
from streamwarden.lifecycle.supervision.standby import Fit, digest
from streamwarden.units import Seconds, format_list

POOL: Final = "pool"
"""Kind of the event that a driver records when the number of its pool's ready standbys changes; `ready`, `size`."""

UNUSED_AFTER: Final[Seconds] = 15.0
"""Seconds after which a stream no longer uses a standby: its driver reports that it does every two."""

RUN_TIME: Final = frozenset(
    {
        "spark.sql.shuffle.partitions",
        "spark.sql.session.timeZone",
        "spark.sql.streaming.stopTimeout",
        "spark.sql.streaming.noDataMicroBatches.enabled",
        "spark.sql.streaming.multipleWatermarkPolicy",
        "spark.sql.streaming.fileSink.log.compactInterval",
        "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled",
        "spark.sql.adaptive.enabled",
        "spark.sql.ansi.enabled",
        "spark.sql.caseSensitive",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.codegen.wholeStage",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.sql.files.maxPartitionBytes",
        CHECKPOINT_FILES,
        DELTAS,
        FORMAT,
        IN_MEMORY,
        RETAIN,
        f"{STATE_STORE}.providerClass",
        f"{STATE_STORE}.encodingFormat",
        f"{STATE_STORE}.commitValidation.enabled",
        f"{STATE_STORE}.stateSchemaCheck",
        f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled",
    }
)
"""Settings that each query of a session reads for itself. Two kinds of `spark.sql` are not among them: what Spark calls
static, such as the warehouse, and what the first query of a JVM settles for all that follow, which the rehearsal of a
standby is: the interval of the state stores' maintenance, and the memory that all RocksDB instances share."""

_NAMELESS: Final = "spark.app.name"
"""The stream's name; nothing that a local driver does depends on it."""

_SHOWN: Final = {
    "file": "Spark settings that only a new JVM takes",
    "code": "packages, py_files or Maven project",
    "environment": "environment",
    "command": "command of Airflow's connection",
}


def run_time_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of a driver's settings that a standby takes when it is promoted. Pure."""
    return {key: value for key, value in settings.items() if key in RUN_TIME}


def pool_fit(
    settings: Mapping[str, str],
    code: Mapping[str, Any],
    environment: Mapping[str, str],
    command: Sequence[str] | None,
) -> Fit:
    """The digests that the start of a driver must have in common with a standby of the pool. Pure.

    Args:
        settings: of Spark, with a driver's folder that is the same for all.
        code: see `deployed_code.shipped_code_of`.
        environment: the driver's variables, without the one that names its folder.
    """
    fixed = {key: value for key, value in settings.items() if key not in RUN_TIME and key != _NAMELESS}
    return Fit(
        file=digest(fixed),
        code=digest(code),
        environment=digest(environment),
        command=digest(None if command is None else without_name(command)),
    )


def without_name(command: Sequence[str]) -> list[str]:
    """The command of Airflow's hook without the application's name, which is that of a task. Pure."""
    return [word for at, word in enumerate(command) if word != "--name" and (at == 0 or command[at - 1] != "--name")]


def shown_differences(one: Fit, other: Fit) -> str:
    """What differs between two fits, for people; empty if nothing does. Pure."""
    return format_list(shown for name, shown in _SHOWN.items() if getattr(one, name) != getattr(other, name))


def pool_event(driver_id: str, ready: int, size: int, at: float) -> DriverEvent:
    """The event that keeps how many standbys of its pool a driver saw ready."""
    detail = {"ready": str(ready), "size": str(size)}
    return DriverEvent(driver_id=driver_id, at=at, kind=POOL, detail=detail)


def pool_state(events: Sequence[DriverEvent]) -> str:
    """`1 of 2`: the ready standbys of the pool that the driver with these events may use; empty: it has no pool."""
    newest = max((event for event in events if event.kind == POOL), key=lambda event: event.at, default=None)
    return "" if newest is None else f"{newest.detail['ready']} of {newest.detail['size']}"
