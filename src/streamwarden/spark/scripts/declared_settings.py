"""Gives each query that a script starts the settings that the stream's file declares and the script does not name.

The script stays as it is: its calls of `start()` and `toTable()` are examined in the driver. A query without a
checkpoint gets the declared one, a query without a trigger the declared one. A query that contradicts the file is
refused before Spark creates anything, with both values.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.errors import JobError
from streamwarden.lifecycle.script_queries import (
    Contradiction,
    NamedInput,
    NamedQuery,
    declared_checkpoint,
    input_contradictions,
    located,
    query_contradictions,
    taken_by,
)
from streamwarden.spark.scripts.query_starts import CHECKPOINT, FORMAT, QueryStart, watch_starts
from streamwarden.spark.sinks import trigger_options
from streamwarden.stream.spec import StreamSpec, TriggerSpec

_ROOT: Final = "spark.sql.streaming.checkpointLocation"
"""A setting of the script: a query that has a name has its checkpoint in this folder, under that name."""


class ScriptStarts:
    """The queries of one script, in the order in which they start.

    Args:
        starts: how many queries the script starts, by its text; None where the text does not say.
        refuse: ends the driver, and returns when its other queries have come to their batch boundaries.
    """

    def __init__(
        self, spec: StreamSpec, *, starts: int | None, refuse: Callable[[JobError], None] = lambda error: None
    ) -> None:
        self._spec = spec
        self._starts = starts
        self._refuse = refuse
        self._used: dict[str, str | None] = {}

    def watch(self) -> None:
        """From now on, examine each start of a query in this process."""
        watch_starts(self._examine)

    def _examine(self, start: QueryStart) -> None:
        """The query starts as the script's call says, with what is missing."""
        try:
            self.complete(start.writer, named_by(start), start.inputs())
        except JobError as error:
            self._refuse(error)
            raise

    def complete(self, writer: Any, query: NamedQuery, inputs: Sequence[NamedInput] = ()) -> None:
        """Add the declared settings to the writer. Raises JobError for a query that the file contradicts.

        Of several queries each is compared with its declaration by the query registry, which knows its name.
        """
        if not self._spec.queries and self._starts == 1:
            written = self._spec.trigger != TriggerSpec()
            contradictions = query_contradictions(self._spec, query, single=True, trigger_written=written)
            contradictions += input_contradictions(self._spec, inputs)
            if contradictions:
                raise _refusal(self._spec, contradictions[0])
        if query.checkpoint is None:
            place = self._checkpoint(query)
            writer.option(CHECKPOINT, to_hadoop(place))
        else:
            place = located(self._spec, query.checkpoint) or query.checkpoint
        self._used[place] = query.name
        if query.trigger is None:
            writer.trigger(**trigger_options(self._spec.trigger))

    def _checkpoint(self, query: NamedQuery) -> str:
        place = declared_checkpoint(self._spec, query, starts=self._starts)
        if place is None:
            raise _nameless(self._spec, query)
        other = taken_by(place, self._used)
        again = query.name is not None and other == place and self._used[place] == query.name
        if other is not None and not again:
            raise _taken(self._spec, query, place, other)
        return place


def named_by(start: QueryStart) -> NamedQuery:
    """The parts that the job names of a query that is about to start."""
    options = start.options
    query = NamedQuery(
        name=options.get("queryname"),
        checkpoint=options.get(CHECKPOINT.lower()),
        format=options.get(FORMAT),
        path=options.get("path"),
        topic=options.get("topic"),
        table=options.get("table"),
        trigger=start.trigger,
    )
    root = start.place(_ROOT)
    if query.checkpoint is None and root and query.name:
        return replace(query, checkpoint=f"{root.rstrip('/')}/{query.name}")
    return query


def _refusal(spec: StreamSpec, contradiction: Contradiction) -> JobError:
    return JobError(
        contradiction.observed, expected=contradiction.expected, where=spec.job, next_step=contradiction.next_step
    )


def _nameless(spec: StreamSpec, query: NamedQuery) -> JobError:
    return JobError(
        f"the script starts a query {query.name or 'without a name'}, and the query names no checkpoint",
        expected=f"a query with the name of a declared one: {', '.join(spec.queries)}",
        where=spec.job,
        next_step="give the query that name with queryName(), or name its checkpoint in the script",
    )


def _taken(spec: StreamSpec, query: NamedQuery, place: str, other: str) -> JobError:
    return JobError(
        f"the script starts a query {query.name or 'without a name'} that names no checkpoint; the declared one for "
        f"it, {place}, overlaps the checkpoint {other} of another query of the script",
        expected="a separate checkpoint for each query",
        where=spec.job,
        next_step=f"name each query with queryName() and declare them in `queries` of {spec.file or spec.name}, or "
        "name their checkpoints in the script",
    )
