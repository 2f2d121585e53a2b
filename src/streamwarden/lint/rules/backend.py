"""SW102: a state backend that does not fit the state's size, or where the stream runs."""

import re
from collections.abc import Iterable
from typing import Final

from streamwarden.checkpoint.diagnosis.damage import NEW_PLACES
from streamwarden.clusters import manager_of
from streamwarden.lifecycle.settings import HEAP_SHARE, STATE_STORE, executor_heap, flag
from streamwarden.lint.facts import Bound, Facts, OperatorKind
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import Backend
from streamwarden.units import MB, format_size

SNAPSHOT_EACH_COMMIT: Final = 100 * MB
"""State from which a whole snapshot with each commit is too much: a second of a local disk, in every batch."""

_REMOTE: Final = re.compile(r"(?!file:)[a-zA-Z][\w+.-]*:/")


def judge(facts: Facts) -> Iterable[Finding]:
    """Limits of the backend, and its costs here."""
    spec, backend = facts.spec, facts.spec.state.backend
    operators = facts.operators() or ()
    where = f"{facts.file}: state.backend"
    remote = _REMOTE.match(spec.checkpoint) is not None
    if manager_of(spec.spark.master).has_executors and not remote:
        observed = (
            f"the executors of {spec.spark.master} need the checkpoint {spec.checkpoint} under that very path: a "
            "folder of one host's disk fails, one that all hosts mount serves"
        )
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, f"{facts.file}: checkpoint")
    if backend is Backend.HDFS:
        for operator in operators:
            if operator.kind is OperatorKind.PROCESSOR:
                observed = f"{operator.name} runs on RocksDB only, and the backend is hdfs"
                yield RULE.finding(facts, observed, operator.origin, operator.where, severity=Severity.ERROR)
        memory = facts.history.state_memory if facts.history else None
        heap = _heap(spec.spark)
        if memory is not None and heap is not None and memory > HEAP_SHARE * heap:
            observed = (
                f"HDFS-backed state takes {format_size(memory)} of a heap of {format_size(heap)}, more than "
                f"{HEAP_SHARE:.0%}"
            )
            yield RULE.finding(facts, observed, FactOrigin.HISTORY, where)
        for operator in (operator for operator in operators if operator.bound is Bound.NONE):
            observed = (
                f"the state of {operator.name} grows without end on the heap (backend hdfs): "
                "RocksDB would spill to disk"
            )
            yield RULE.finding(facts, observed, operator.origin, operator.where)
        if not facts.all_known:
            observed = "whether the state grows without end, or needs RocksDB, is not known without `lint --plan`"
            yield RULE.unknown(facts, observed, FactOrigin.DECLARATION, where)
    elif backend is Backend.ROCKSDB:
        yield from _rocksdb(facts, remote)
    else:
        observed = f"{backend} is a custom provider: where it keeps its state is not known"
        yield RULE.unknown(facts, observed, FactOrigin.DECLARATION, where)


def _heap(spark: SparkSpec) -> int | None:
    """Bytes of heap for state: the driver's, or that of all executors; None if their number is not declared."""
    if not manager_of(spark.master).has_executors:
        return spark.driver_memory
    return None if spark.executors.instances is None else spark.executors.instances * executor_heap(spark)


def _rocksdb(facts: Facts, remote: bool) -> Iterable[Finding]:
    if not flag(facts.conf, f"{STATE_STORE}.rocksdb.boundedMemoryUsage", False):
        observed = "RocksDB takes memory outside the heap without a limit (boundedMemoryUsage is false)"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, f"{facts.file}: spark.conf")
    if flag(facts.conf, f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled", False):
        return
    where = f"{facts.file}: state.changelog"
    if remote:
        observed = "without changelogs each commit uploads a snapshot to remote storage"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where)
    elif facts.checkpoint is not None and facts.checkpoint.state_bytes > SNAPSHOT_EACH_COMMIT:
        observed = (
            f"without changelogs each commit writes a snapshot; {format_size(facts.checkpoint.state_bytes)} are kept"
        )
        yield RULE.finding(facts, observed, FactOrigin.CHECKPOINT, facts.checkpoint.path)


RULE = Rule(
    id="SW102",
    title="Backend unfit for the state or the deployment",
    severity=Severity.WARNING,
    reason=(
        "HDFS-backed state is on the heap, in several versions: large state ends in garbage collection, then out "
        "of memory. RocksDB keeps it on disk, but takes native memory without a limit unless it is given one."
    ),
    reads=(
        "`state.backend`, `state.changelog`, `checkpoint`, `spark.master`, `spark.driver_memory` or, on a cluster, "
        "`spark.executors`; Spark's settings in force; the operators; `memoryUsedBytes` of the newest report (more "
        f"than {HEAP_SHARE:.0%} of the heap is too much for HDFS-backed); bytes under `state/` (more than "
        f"{format_size(SNAPSHOT_EACH_COMMIT)} is too much for a snapshot with each commit). transformWithState on the "
        "HDFS-backed provider is an error: the query fails. Whether a folder under a cluster's master is one that all "
        "hosts mount is not visible from here, so the finding names the folder."
    ),
    remedy=(
        "`state: {backend: rocksdb, changelog: true}`; a checkpoint that all executors see; leave `boundedMemoryUsage` "
        f"as the runner sets it. A new backend needs {NEW_PLACES}."
    ),
    judge=judge,
)
