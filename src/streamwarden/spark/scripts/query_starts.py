"""Examines each start of a query in this process before Spark creates anything of the query."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyspark.sql.streaming.readwriter import DataStreamWriter

from streamwarden.lifecycle.script_queries import NamedInput
from streamwarden.spark.internals.hooks import around
from streamwarden.spark.internals.plans import streaming_inputs
from streamwarden.spark.internals.readers_writers import (
    format_of,
    options_of,
    place_of,
    session_of,
    set_trigger_of,
    setting_of,
    written_frame,
)
from streamwarden.stream.spec import TriggerSpec

CHECKPOINT: Final = "checkpointLocation"

FORMAT: Final = "format"

_TRIGGER_NAMED: Final = "_streamwarden_trigger_named"
"""Set on a writer whose `trigger` was called: Spark's own field does not distinguish its default from a zero."""


_FUNCTION: Final = "_streamwarden_given_function"
"""Set on a writer whose `foreachBatch` was called: Spark keeps the function in the JVM only."""


@dataclass(frozen=True, slots=True)
class QueryStart:
    """A query that is about to start.

    Args:
        writer: Spark's DataStreamWriter; its options may still be set.
        options: of the writer and of the call, with names in lower case: a `path`, a `topic`, a `table`, a
            `queryname`, its checkpoint, and its `format`. The places are as `place_of` says.
        trigger: None if the job names none.
        call: the arguments of the call, by the names of its parameters.
    """

    writer: Any
    options: Mapping[str, str | None]
    trigger: TriggerSpec | None
    call: Mapping[str, Any] = field(default_factory=dict)

    @property
    def function(self) -> Any:
        """The function that the job passed to `foreachBatch`; None if it passed none."""
        return getattr(self.writer, _FUNCTION, None)

    def settle(self) -> None:
        """Set on the writer what the call names beside its place, as the call itself would."""
        self.writer.options(**self.call.get("options", {}))
        for name in ("outputMode", "partitionBy", "format", "queryName"):
            if self.call.get(name) is not None:
                getattr(self.writer, name)(self.call[name])

    def written(self, name: str) -> str:
        """A private field of the writer, as text: `outputMode`, `source`, `partitioningColumns`."""
        return setting_of(self.writer, name)

    def inputs(self) -> tuple[NamedInput, ...]:
        """The streaming sources of the query: of files the folder, of a broker the topic."""
        session = session_of(self.writer)
        found = streaming_inputs(written_frame(self.writer))
        return tuple(
            source if source.path is None else replace(source, path=place_of(session, source.path)) for source in found
        )

    def place(self, name: str) -> str | None:
        """The place in a setting of the query's session; None if it is not set."""
        value: str | None = session_of(self.writer).conf.get(name, None)
        return value and place_of(session_of(self.writer), value)


Instead = Callable[[Callable[[], Any]], Any]
"""Gets Spark's own `start` of the writer, and returns what the job's call returns."""


def watch_starts(examine: Callable[[QueryStart], Instead | None]) -> None:
    """From now on, call `examine` before each `start()` and `toTable()`. If it raises, the query does not start.

    If it returns a function, that function starts the query instead, from what is set on the writer by then.
    """
    start_of_spark = DataStreamWriter.start

    def start(started: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        given = {FORMAT: format_of(writer), **arguments(started, args, options)}
        trigger = set_trigger_of(writer) if getattr(writer, _TRIGGER_NAMED, False) else None
        call = inspect.signature(started).bind(None, *args, **options).arguments
        instead = examine(QueryStart(writer, _located(writer, {**options_of(writer), **given}), trigger, call))
        if instead is not None:
            return instead(lambda: start_of_spark(writer))
        return started(writer, *args, **options)

    around(DataStreamWriter, "trigger", _set_trigger)
    around(DataStreamWriter, "foreachBatch", _set_function)
    around(DataStreamWriter, "start", start)
    around(DataStreamWriter, "toTable", start)


def _located(writer: Any, options: Mapping[str, str | None]) -> dict[str, str | None]:
    """The options with the places that they name."""
    named = {name: place for name in ("path", CHECKPOINT.lower()) if (place := options.get(name)) is not None}
    return {**options, **{name: place_of(session_of(writer), place) for name, place in named.items()}}


def _set_trigger(method: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
    setattr(writer, _TRIGGER_NAMED, True)
    return method(writer, *args, **options)


def _set_function(method: Callable[..., Any], writer: Any, func: Any) -> Any:
    setattr(writer, _FUNCTION, func)
    return method(writer, func)


def arguments(started: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, str | None]:
    """The settings of a call of a writer's method `started`, with names in lower case; a parameter may be given by its
    position or by its name. Raises TypeError for a call that the method does not accept."""
    given = inspect.signature(started).bind(None, *args, **options).arguments
    given.pop("self", None)
    named = {**given.pop("options", {}), **given}
    settings = {name.lower(): str(value) for name, value in named.items() if value is not None}
    return {"table" if name == "tablename" else name: value for name, value in settings.items()}
