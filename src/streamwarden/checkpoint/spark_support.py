"""The versions of Spark that a stream can run on, and what each of them lacks: the one table of it.

`validate` and the programs on state ask here. Source of the versions: the classes, the settings and the Python methods
of the releases 3.5.9, 4.0.5, 4.1.4, 4.2.1 and 4.3.0. What of Spark's internals has another name in another version is
in `spark.internals.versions`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

Version = tuple[int, int]
"""Major and minor."""

SUPPORTED: Final[tuple[Version, ...]] = ((3, 5), (4, 0), (4, 1), (4, 2), (4, 3))
"""The versions on which a stream was run."""

NEWEST: Final = SUPPORTED[-1]
"""The version in the environment of Streamwarden itself."""


@dataclass(frozen=True, slots=True)
class Since:
    """Something of Spark that older versions lack.

    Args:
        version: the first that has it; title: what it is; instead: what a stream on an older one can do.
    """

    version: Version
    title: str
    instead: str


class Feature(Enum):
    """What some of the supported versions lack. Of the last three an earlier Spark has a part: Streamwarden was tried
    with the crash matrix on 4.1, 4.2 and 4.3, and with the others on 4.3 alone."""

    AVRO_STATE = Since((4, 0), "state encoded as Avro", "set `state.encoding: unsaferow`")
    CHECKPOINT_FORMAT_2 = Since((4, 0), "checkpoint format 2", "delete the setting: format 1 is the default")
    STATE_READER = Since((4, 0), "the reader of state (`statestore`)", "run the stream on Spark 4.0 or later")
    TRANSFORM_PANDAS = Since(
        (4, 0), "transformWithStateInPandas in Python", "use applyInPandasWithState, or windows and groupBy().agg()"
    )
    TRANSFORM_ROWS = Since((4, 1), "transformWithState in Python", "use transformWithStateInPandas (since 4.0)")
    COMMIT_VALIDATION = Since((4, 1), "the validation of commits", "delete the setting")
    AUTO_REPAIR = Since((4, 2), "the repair of snapshots", "delete the setting; a savepoint replaces a lost snapshot")
    OFFSET_LOG_2 = Since((4, 2), "version 2 of the offset log", "delete the setting: version 1 is the default")
    REWRITER = Since((4, 3), "the rewriting of state as Streamwarden does it", "run the stream on Spark 4.3")
    CRASH_MATRIX = Since((4, 1), "a crash matrix as Streamwarden makes it", "use the drill kill_driver")
    REAL_TIME = Since((4, 3), "real-time mode as Streamwarden runs it", "use `trigger.processing_time`")


SETTINGS: Final[Mapping[str, Feature]] = {
    "spark.sql.streaming.stateStore.autoSnapshotRepair.enabled": Feature.AUTO_REPAIR,
    "spark.sql.streaming.offsetLog.formatVersion": Feature.OFFSET_LOG_2,
    "spark.sql.streaming.stateStore.commitValidation.enabled": Feature.COMMIT_VALIDATION,
}
"""Settings that an older version would ignore without a word."""

METHODS: Final[Mapping[str, Feature]] = {
    "transformWithState": Feature.TRANSFORM_ROWS,
    "transformWithStateInPandas": Feature.TRANSFORM_PANDAS,
}
"""PySpark's methods, as the text of a job names them."""

PROGRAMS: Final[Mapping[str, Feature]] = {
    "audit": Feature.STATE_READER,
    "state": Feature.STATE_READER,
    "assigning": Feature.REWRITER,
    "rewriting": Feature.REWRITER,
    "repartition": Feature.REWRITER,
    "crash_states": Feature.CRASH_MATRIX,
}
"""Programs of `spark/programs` -> what they need."""

CLASSES: Final[Mapping[str, Mapping[Version, str]]] = {
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager": {
        (3, 5): "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager",
        (4, 1): "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    }
}
"""Classes that settings name, as the newest version calls them -> the version since which a name holds -> that name."""


def parsed(version: str) -> Version:
    """`4.1.4` -> (4, 1). Raises ValueError for another form."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def shown(version: Version) -> str:
    """(4, 1) -> `4.1`."""
    return f"{version[0]}.{version[1]}"


def lacks(version: Version, feature: Feature) -> bool:
    """Whether a version of Spark lacks it."""
    return version < feature.value.version


def named_in(conf: Mapping[str, str], version: Version) -> dict[str, str]:
    """`conf` with the classes that it names as that version of Spark calls them."""
    return {key: _class_name(value, version) for key, value in conf.items()}


def _class_name(value: str, version: Version) -> str:
    names = CLASSES.get(value)
    return value if names is None else names[max(since for since in names if since <= version)]
