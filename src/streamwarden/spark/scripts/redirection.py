"""Redirects the queries that a script starts into its fork, and keeps its other writes within the fork."""

import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from streamwarden.checkpoint.formats.uris import of_hadoop, to_hadoop
from streamwarden.errors import JobError
from streamwarden.lifecycle.driver_folder import write_document
from streamwarden.lifecycle.forks.scripts import INDEX, ForkQueries, ForkQuery, OutputKind, inside
from streamwarden.lifecycle.forks.started import started_queries
from streamwarden.lifecycle.script_queries import writing_function
from streamwarden.services.forks.scripts import listed, require_repeatable
from streamwarden.spark.internals.readers_writers import clear_layout, format_of, options_of
from streamwarden.spark.scripts.batch_writes import BatchWrites
from streamwarden.spark.scripts.captures import Capture
from streamwarden.spark.scripts.declared_settings import named_by
from streamwarden.spark.scripts.fork_reads import watch_reads
from streamwarden.spark.scripts.query_starts import CHECKPOINT, QueryStart, watch_starts
from streamwarden.stream.spec import ForeachBatch, ScriptFork, StreamSpec

Begin = Callable[[Any, ForkQuery, Callable[[], Any]], Any]
"""Runs a redirected query: the writer, the query, Spark's own start of the writer -> what the script's call returns."""


def to_its_end(writer: Any, query: ForkQuery, start: Callable[[], Any]) -> Any:
    """Start the query so that it ends when it has read the input that is there now."""
    writer.trigger(availableNow=True)
    return start()


class ForkedStarts:
    """The starts of a script's queries in the driver of a fork.

    Args:
        refuse: ends the driver, and returns when its other queries have come to their batch boundaries.
        begin: runs a redirected query.
    """

    def __init__(
        self,
        spec: StreamSpec,
        script: ScriptFork,
        *,
        refuse: Callable[[JobError], None] = lambda error: None,
        begin: Begin = to_its_end,
    ) -> None:
        self._spec = spec
        self._script = script
        self._queries = ForkQueries(spec, script)
        self._writes = BatchWrites(spec)
        self._refuse = refuse
        self._begin = begin
        self._before = {query.name: query for query in started_queries(script)}
        self._life = 1 + max((query.life for query in self._before.values()), default=0)

    def watch(self) -> None:
        """From now on, redirect each start of a query in this process, and fence its other writes."""
        watch_reads(self._script.batches)
        self._writes.watch()
        watch_starts(self._examine)

    def _examine(self, start: QueryStart) -> Callable[[Any], Any]:
        try:
            query = self._redirect(start)
        except JobError as error:
            self._refuse(error)
            raise
        return lambda begin: self._begin(start.writer, query, begin)

    def _redirect(self, start: QueryStart) -> ForkQuery:
        named = named_by(start)
        start.settle()
        inputs = start.inputs()
        require_repeatable(self._spec, [named.trigger], inputs)
        query = self._queries.redirected(
            named,
            inputs,
            options=start.options,
            partitioned=start.written("partitioningColumns") != "None",
            append=start.written("outputMode") == "Append",
        )
        query = replace(query, function=writing_function(start.function))
        writer = start.writer.option(CHECKPOINT, to_hadoop(query.checkpoint))
        match query.kind:
            case OutputKind.FILES:
                writer.format(query.format).option("path", to_hadoop(str(query.output)))
            case OutputKind.CAPTURE:
                self._capture(start, query)
            case OutputKind.NOTHING:
                if query.format == "memory":  # Spark lets no such query go on after its driver ended: it begins again
                    shutil.rmtree(query.checkpoint, ignore_errors=True)
        self._require_inside(query, writer)
        self._record(query)
        return query

    def _record(self, query: ForkQuery) -> None:
        """Write down the query for the verdict. What its first start declared is kept."""
        first = self._before.get(query.name)
        now = query if first else replace(query, listed=listed(query.whole, self._spec.storage.connection))
        recorded = replace(now.began_as(first), life=self._life)
        self._before[query.name] = recorded
        index = Path(self._script.output, INDEX)
        index.mkdir(parents=True, exist_ok=True)
        write_document(index / f"{query.name}.json", asdict(recorded))

    def _capture(self, start: QueryStart, query: ForkQuery) -> None:
        folder = Path(str(query.output))
        folder.mkdir(parents=True, exist_ok=True)
        runs = self._script.foreach_batch is ForeachBatch.RUN and query.format == "foreachbatch"
        clear_layout(start.writer)
        start.writer.foreachBatch(Capture(folder, self._writes, start.function if runs else None))

    def _require_inside(self, query: ForkQuery, writer: Any) -> None:
        """The last check of the writer: nothing of it may lie outside of the fork."""
        options, format = options_of(writer), format_of(writer).lower()
        place, path = (of_hadoop(options.get(name) or "") for name in (CHECKPOINT.lower(), "path"))
        outside = None
        if not inside(place, self._spec.checkpoint):
            outside = f"the checkpoint {place}"
        elif query.kind is OutputKind.FILES and not inside(path, self._script.output):
            outside = f"the output {path}"
        elif query.kind is OutputKind.CAPTURE and format != "foreachbatch":
            outside = f"the format {format}"
        if outside is not None:
            raise JobError(
                f"the query {query.name} of the fork would have {outside}, which is not a place of the fork",
                expected=f"a checkpoint in {self._spec.checkpoint} and an output in {self._script.output}",
                where=self._spec.job,
                next_step="report this with the script: no start of a query may leave the fork",
            )
