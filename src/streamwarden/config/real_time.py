"""The rules of a stream in real-time mode, as far as its files show them; Spark checks the rest at the start.

Source: Spark's guide of the mode and `RealTimeModeAllowlist`, its list of operators and sinks.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from streamwarden import sinks, sources
from streamwarden.checkpoint.spark_version import REAL_TIME_REFUSES, SHORTEST_REAL_TIME_BATCH
from streamwarden.clusters.local import threads
from streamwarden.problems import KeyPath, Problem, show
from streamwarden.stream.spec import Backend, OutputMode, SinkSpec, SourceSpec, StreamSpec
from streamwarden.units import format_duration


def _able(kinds: Mapping[str, type[SourceSpec] | type[SinkSpec]]) -> str:
    """The kinds that have the mode."""
    return " or ".join(name for name, kind in kinds.items() if kind.REAL_TIME)


def real_time_problems(spec: StreamSpec) -> list[Problem]:
    """Problems of a stream with `trigger.real_time`; none of any other stream."""
    length = spec.trigger.real_time
    if length is None:
        return []
    wrong: list[tuple[KeyPath, object, bool, str]] = [
        (
            ("trigger", "real_time"),
            f"{length:g} s",
            length >= SHORTEST_REAL_TIME_BATCH,
            f"at least {SHORTEST_REAL_TIME_BATCH:g} s: Spark refuses less",
        ),
        (
            ("source", "kind"),
            str(spec.source.kind),
            spec.source.REAL_TIME,
            f"{_able(sources.KINDS)}: Spark can read no other kind of source in real-time mode",
        ),
        (
            ("source", "max_offsets_per_trigger"),
            spec.source.limit,
            spec.source.limit is None,
            "nothing: a batch reads all records that arrive while it lasts",
        ),
        (
            ("sink", "kind"),
            str(spec.sink.kind),
            spec.sink.REAL_TIME,
            f"{_able(sinks.KINDS)}: the other kinds of sink write a batch as a whole",
        ),
        (
            ("sink", "mode"),
            str(spec.sink.mode),
            spec.sink.mode is OutputMode.UPDATE,
            "update, which is the only mode",
        ),
        (
            ("state", "backend"),
            str(spec.state.backend),
            spec.state.backend is Backend.ROCKSDB,
            "rocksdb: the mode needs checkpoint format 2, which only RocksDB has",
        ),
        (
            ("stop", "batch_deadline"),
            f"{spec.stop.batch_deadline:g} s",
            spec.stop.batch_deadline > length,
            f"more than `trigger.real_time`, {length:g} s: a batch lasts that long before it can be committed",
        ),
    ]
    problems = [
        Problem(key=key, observed=show(value), allowed=allowed) for key, value, holds, allowed in wrong if not holds
    ]
    return [*problems, *_slots(spec), *_job(spec)]


def _slots(spec: StreamSpec) -> Iterator[Problem]:
    """A task for each partition of the topic and one for each of the state run at the same time, for a whole batch.

    Another task reads the rows for the quarantine at the same time. Without an additional slot it would take one of
    theirs, and Spark ends a query that does not get all its slots when a batch begins.
    """
    tasks = threads(spec.spark.master)
    state, aside = spec.state.shuffle_partitions, spec.quarantine is not None
    least = 1 + state + aside
    if tasks is not None and tasks < least:
        beside = ", and one for the quarantine" if aside else ""
        yield Problem(
            key=("spark", "master"),
            observed=f"{show(spec.spark.master)}: {tasks} tasks at a time",
            allowed=f"at least local[{least}]: {state} tasks for the state, one for each partition of the topic"
            f"{beside}, all at once",
            next_step="raise it (tasks mostly wait, so it may exceed the number of cores), or lower "
            "`state.shuffle_partitions`",
        )


def _job(spec: StreamSpec) -> Iterator[Problem]:
    """Operators in the text of the job that Spark refuses. Spark itself reports those that the text does not show."""
    try:
        tree = ast.parse(Path(spec.job).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return  # `_job` of the rules reports a missing file, and `validate` one that is not Python
    for node in ast.walk(tree):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in REAL_TIME_REFUSES:
            yield Problem(
                key=("job",),
                observed=f"{show(name)} in line {node.lineno} of {Path(spec.job).name}",  # type: ignore[attr-defined]
                allowed=f"native operators that real-time mode has: {REAL_TIME_REFUSES[name]}",
                next_step="change the job, or take `processing_time` instead of "
                f"`real_time: {format_duration(spec.trigger.real_time or 0)}`",
            )
            return
