"""Facts about a version of Spark: its formats, operators, defaults and limits.

To support a new Spark, open this file and `spark/internals`. The numbers are those of Spark's sources; a format that is
newer than named here is reported as one that this Spark cannot read.
"""

from collections.abc import Mapping
from typing import Final

SPARK: Final = "4.3"

# The newest formats that it reads.
OFFSET_LOG: Final = 2
COMMIT_LOG: Final = 3
FILE_SOURCE_LOG: Final = 1
FILE_SINK_MANIFEST: Final = 1

STATEFUL_OPERATORS: Final = frozenset(
    {
        "globalLimit",
        "dedupe",
        "dedupeWithinWatermark",
        "sessionWindowStateStoreSaveExec",
        "flatMapGroupsWithState",
        "stateStoreSave",
        "symmetricHashJoin",
        "applyInPandasWithState",
        "transformWithStateExec",
        "transformWithStateInPandasExec",
        "transformWithStateInPySparkExec",
    }
)
"""The names that operators have in a checkpoint."""

# Defaults of its settings; intervals in seconds, sizes in bytes.
DELTAS_FOR_SNAPSHOT: Final = 10.0
MAINTENANCE_INTERVAL: Final = 60.0
BATCHES_RETAINED: Final = 100.0
BATCHES_IN_MEMORY: Final = 2.0
EXECUTOR_MEMORY: Final = 2**30

SHORTEST_REAL_TIME_BATCH: Final = 5.0
"""Seconds: `spark.sql.streaming.realTimeMode.minBatchDuration`."""

REAL_TIME_REFUSES: Final[Mapping[str, str]] = {
    "transformWithState": "count with groupBy().agg(), drop repeats with dropDuplicates",
    "transformWithStateInPandas": "count with groupBy().agg(), drop repeats with dropDuplicates",
    "applyInPandasWithState": "count with groupBy().agg(), drop repeats with dropDuplicates",
    "dropDuplicatesWithinWatermark": "withWatermark, and dropDuplicates with the event time among its columns",
    "session_window": "windows of fixed length",
    "foreachBatch": "return the DataFrame from build(); `sink` says where it goes",
}
"""Operators that it refuses in real-time mode (`RealTimeModeAllowlist`) -> what a job can use instead."""

TTL_ARGUMENT: Final[Mapping[str, int]] = {"getValueState": 2, "getListState": 2, "getMapState": 3}
"""Methods of a StatefulProcessor's handle -> position of `ttlDurationMs` among the arguments."""
