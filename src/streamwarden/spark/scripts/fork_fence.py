"""Keeps a fork's driver within the fork: it starts no query with another checkpoint or output than the fork's.

A drill breaks a copy of a stream, whose output is removed afterwards. A job that names its stream's own places would
write there all the same, so each start of a query is checked before Spark creates anything. The fence does not see
what a function writes that the job passes to foreachBatch. The queries of a script are redirected first: see
`spark.scripts.redirection`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streamwarden.errors import JobError
from streamwarden.lifecycle.forks.places import SUFFIX
from streamwarden.lifecycle.job_files import has_build
from streamwarden.lifecycle.location import plain_path, same_place
from streamwarden.sinks import KINDS
from streamwarden.spark.scripts.query_starts import CHECKPOINT, FORMAT, QueryStart, watch_starts
from streamwarden.stream.spec import StreamSpec

_PLACES: Final = tuple(dict.fromkeys(kind.PLACE for kind in KINDS.values() if kind.PLACE is not None))
"""Options of a writer that name a place."""


def fence_fork(spec: StreamSpec, also: str | None = None) -> None:
    """Keep this process within the fork `spec`; does nothing in the driver of any other stream, or of a script's fork.

    Args:
        also: another checkpoint, in which a query may begin that writes nowhere.

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
    # Returns nothing: the query starts as it is written.
    watch_starts(lambda start: None if writes_nothing(start.options, also) else _refuse_outside(spec, start))


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
    for name in _PLACES:
        place, own = options.get(name), _own(spec) if name == spec.sink.PLACE else None
        if place is not None and (own is None or not _within(place, own)):
            return f"a query with the output {name} {place}"
    format = (options.get(FORMAT) or "").lower()
    for kind in KINDS.values():  # an option wins over a column with the name of the place
        named = kind.SERVICE is not None and any(name in format for name in kind.FORMATS)
        if named and options.get(str(kind.PLACE)) is None:
            return f"a query with the output {kind.PLACE}s that its rows name"
    return None


def writes_nothing(options: Mapping[str, str | None], checkpoint: str | None) -> bool:
    """Whether the query begins in this checkpoint and writes nowhere. Pure."""
    place = options.get(CHECKPOINT.lower())
    here = place is not None and checkpoint is not None and same_place(place, checkpoint)
    return here and options.get(FORMAT) == "noop"


def _own(spec: StreamSpec) -> str | None:
    """Where Spark's own writer writes the fork's output; None if another one does, or nothing is declared."""
    return spec.sink.place if spec.sink.FORMATS else None


def _within(place: str, own: str) -> bool:
    return same_place(place, own) or plain_path(place).startswith(f"{plain_path(own)}/")


def _refuse_outside(spec: StreamSpec, start: QueryStart) -> None:
    outside = violation(spec, start.options)
    if outside is not None:
        raise _refusal(spec, outside)


def _refusal(spec: StreamSpec, outside: str) -> JobError:
    return JobError(
        f"the fork's job starts {outside}, which is not a place of the fork",
        expected=f"the fork's checkpoint {spec.checkpoint} and output {_own(spec) or '(none)'}",
        where=spec.job,
        next_step="take checkpoint and output from the `spec` that build() gets, or return a DataFrame",
    )
