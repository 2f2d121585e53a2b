"""Examines each start of a query in this process before Spark creates anything of the query."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamwarden.lifecycle.script_queries import NamedInput
from streamwarden.spark.sessions import trigger_of
from streamwarden.stream import TriggerSpec

CHECKPOINT: Final = "checkpointLocation"

FORMAT: Final = "format"

_TRIGGER_NAMED: Final = "_streamwarden_trigger_named"
"""Set on a writer whose `trigger` was called: Spark's own field does not distinguish its default from a zero."""


@dataclass(frozen=True, slots=True)
class QueryStart:
    """A query that is about to start.

    Args:
        writer: Spark's DataStreamWriter; its options may still be set.
        options: of the writer and of the call, with names in lower case: a `path`, a `topic`, a `table`, a
            `queryname`, its checkpoint, and its `format`.
        trigger: None if the job names none.
    """

    writer: Any
    options: Mapping[str, str | None]
    trigger: TriggerSpec | None

    def inputs(self) -> tuple[NamedInput, ...]:
        """The streaming sources of the query: of files the folder, of a broker the topic."""
        leaves = self.writer._df._jdf.queryExecution().analyzed().collectLeaves().iterator()
        found = []
        while leaves.hasNext():
            leaf = leaves.next()
            if leaf.isStreaming():
                found.append(_input(leaf))
        return tuple(found)

    def setting(self, name: str) -> str | None:
        """A setting of the query's session; None if it is not set."""
        value: str | None = self.writer._spark.conf.get(name, None)
        return value


def watch_starts(examine: Callable[[QueryStart], None]) -> None:
    """From now on, call `examine` before each `start()` and `toTable()`. If it raises, the query does not start."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    def examined(name: str) -> None:
        started = getattr(DataStreamWriter, name)

        @functools.wraps(started)
        def start(writer: Any, *args: Any, **options: Any) -> Any:
            seen = {**_options(writer), FORMAT: str(_field(writer, "source")), **arguments(started, args, options)}
            named = getattr(writer, _TRIGGER_NAMED, False)
            examine(QueryStart(writer, seen, trigger_of(_field(writer, "trigger")) if named else None))
            return started(writer, *args, **options)

        setattr(DataStreamWriter, name, start)

    set_trigger = DataStreamWriter.trigger

    @functools.wraps(set_trigger)
    def trigger(writer: Any, *args: Any, **options: Any) -> Any:
        setattr(writer, _TRIGGER_NAMED, True)
        return set_trigger(writer, *args, **options)

    DataStreamWriter.trigger = trigger  # type: ignore[method-assign,assignment]
    examined("start")
    examined("toTable")


def arguments(started: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, str | None]:
    """What a call of a writer's method `started` sets, with names in lower case, whether a parameter is given by its
    position or by its name. Raises TypeError for a call that the method does not accept."""
    given = inspect.signature(started).bind(None, *args, **options).arguments
    given.pop("self", None)
    named = {**given.pop("options", {}), **given}
    found = {name.lower(): str(value) for name, value in named.items() if value is not None}
    return {"table" if name == "tablename" else name: value for name, value in found.items()}


def _input(relation: Any) -> NamedInput:
    """What a streaming relation reads; nothing is known of a kind of relation that names neither."""
    kind = str(relation.getClass().getSimpleName())
    if kind == "StreamingRelation":
        path = relation.dataSource().options().get("path")
        return NamedInput(path=str(path.get()) if path.isDefined() else None)
    return NamedInput(topic=relation.extraOptions().get("subscribe")) if kind == "StreamingRelationV2" else NamedInput()


def _field(writer: Any, name: str) -> Any:
    """A private field of Spark's own writer: no method returns it."""
    field = writer._jwrite.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(writer._jwrite)


def _options(writer: Any) -> dict[str, str | None]:
    """The options that were set on a writer, with names in lower case."""
    pairs = _field(writer, "extraOptions").iterator()
    found: dict[str, str | None] = {}
    while pairs.hasNext():
        pair = pairs.next()
        found[str(pair._1()).lower()] = str(pair._2())
    return found
