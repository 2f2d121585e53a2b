"""Keeps a fork's driver within the fork: it starts no query with another checkpoint or output than the fork's.

A drill breaks a copy of a stream, whose output is removed afterwards. A job that names its stream's own places would
write there all the same, so each start of a query is checked before Spark creates anything. The fence does not see
what a function writes that the job passes to foreachBatch. The queries of a script are redirected first: see
`spark.scripts.redirection`.
"""

from collections.abc import Mapping
from pathlib import Path

from streamwarden.errors import JobError
from streamwarden.lifecycle.forks.places import SUFFIX
from streamwarden.lifecycle.job_files import has_build
from streamwarden.lifecycle.location import plain_path, same_place
from streamwarden.spark.scripts.query_starts import CHECKPOINT, FORMAT, QueryStart, watch_starts
from streamwarden.stream.spec import StreamSpec


def fence_fork(spec: StreamSpec) -> None:
    """Keep this process within the fork `spec`; does nothing in the driver of any other stream, or of a script's fork.

    Raises JobError, before the job's code runs, for a script that was not forked as one: it chooses its places itself.
    """
    if SUFFIX not in spec.name or spec.fork is not None:
        return
    if not has_build(Path(spec.job)):
        raise JobError(
            "this fork cannot run a script, which chooses its checkpoint and its output itself",
            expected="a fork that redirects the queries of a script",
            where=spec.job,
            next_step="make the fork again: the job was a module with build() when it was made",
        )
    watch_starts(lambda start: _refuse_outside(spec, start))  # returns nothing: the query starts as it is written


def violation(spec: StreamSpec, options: Mapping[str, str | None]) -> str | None:
    """Names what of a query lies outside the fork; None if nothing does. Pure.

    Args:
        options: of the query's writer, with names in lower case: a `path`, a `topic`, a `table`, its checkpoint, and
            its `format`.
    """
    checkpoint = options.get(CHECKPOINT.lower())
    if checkpoint is None:
        return "a query without a checkpoint of the fork"
    if not same_place(checkpoint, spec.checkpoint):
        return f"a query with the checkpoint {checkpoint}"
    for name, own in (("path", spec.sink.path), ("topic", spec.sink.topic), ("table", None)):
        place = options.get(name)
        if place is not None and (own is None or not _within(place, own)):
            return f"a query with the output {name} {place}"
    if "kafka" in (options.get(FORMAT) or "").lower() and options.get("topic") is None:
        return "a query with the output topics that its rows name"  # the option wins over a column `topic`
    return None


def _within(place: str, own: str) -> bool:
    return same_place(place, own) or plain_path(place).startswith(f"{plain_path(own)}/")


def _refuse_outside(spec: StreamSpec, start: QueryStart) -> None:
    outside = violation(spec, start.options)
    if outside is not None:
        raise _refusal(spec, outside)


def _refusal(spec: StreamSpec, outside: str) -> JobError:
    return JobError(
        f"the fork's job starts {outside}, which is not a place of the fork",
        expected=f"the fork's checkpoint {spec.checkpoint} and output {spec.sink.path or spec.sink.topic or '(none)'}",
        where=spec.job,
        next_step="take checkpoint and output from the `spec` that build() gets, or return a DataFrame",
    )
