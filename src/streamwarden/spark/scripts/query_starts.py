"""Examines each start of a query in this process before Spark creates anything of the query."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from streamwarden.lifecycle.script_queries import NamedInput
from streamwarden.spark.driver.sessions import trigger_of
from streamwarden.stream.spec import TriggerSpec

CHECKPOINT: Final = "checkpointLocation"

FORMAT: Final = "format"

_TRIGGER_NAMED: Final = "_streamwarden_trigger_named"
"""Set on a writer whose `trigger` was called: Spark's own field does not distinguish its default from a zero."""


_FUNCTION: Final = "_streamwarden_given_function"
"""Set on a writer whose `foreachBatch` was called: Spark keeps the function in the JVM only."""


_LEAVES_OUT: Final = ("pathGlobFilter", "maxFileAge", "latestFirst", "modifiedBefore", "modifiedAfter")
"""Options of a source of files under which it may never read some of them."""


@dataclass(frozen=True, slots=True)
class QueryStart:
    """A query that is about to start.

    Args:
        writer: Spark's DataStreamWriter; its options may still be set.
        options: of the writer and of the call, with names in lower case: a `path`, a `topic`, a `table`, a
            `queryname`, its checkpoint, and its `format`.
        trigger: None if the job names none.
        call: the arguments of the call, by the names of its parameters.
    """

    writer: Any
    options: Mapping[str, str | None]
    trigger: TriggerSpec | None
    call: Mapping[str, Any] = field(default_factory=dict)

    @property
    def function(self) -> Any:
        """What the job passed to `foreachBatch`; None if it passed nothing."""
        return getattr(self.writer, _FUNCTION, None)

    def settle(self) -> None:
        """Set on the writer what the call names beside its place, as the call itself would."""
        self.writer.options(**self.call.get("options", {}))
        for name in ("outputMode", "partitionBy", "format", "queryName"):
            if self.call.get(name) is not None:
                getattr(self.writer, name)(self.call[name])

    def written(self, name: str) -> str:
        """A private field of the writer, as text: `outputMode`, `source`, `partitioningColumns`."""
        return str(private_field(self.writer._jwrite, name))

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


Instead = Callable[[Callable[[], Any]], Any]
"""Gets Spark's own `start` of the writer, and returns what the job's call returns."""


def watch_starts(examine: Callable[[QueryStart], Instead | None]) -> None:
    """From now on, call `examine` before each `start()` and `toTable()`. If it raises, the query does not start.

    If it returns a function, that function starts the query instead, from what is set on the writer by then.
    """
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    start_of_spark = DataStreamWriter.start

    def examined(name: str) -> None:
        started = getattr(DataStreamWriter, name)

        @functools.wraps(started)
        def start(writer: Any, *args: Any, **options: Any) -> Any:
            own = writer._jwrite
            given = {FORMAT: str(private_field(own, "source")), **arguments(started, args, options)}
            trigger = trigger_of(private_field(own, "trigger")) if getattr(writer, _TRIGGER_NAMED, False) else None
            call = inspect.signature(started).bind(None, *args, **options).arguments
            instead = examine(QueryStart(writer, {**options_of(own), **given}, trigger, call))
            if instead is not None:
                return instead(lambda: start_of_spark(writer))
            return started(writer, *args, **options)

        setattr(DataStreamWriter, name, start)

    set_trigger = DataStreamWriter.trigger

    @functools.wraps(set_trigger)
    def trigger(writer: Any, *args: Any, **options: Any) -> Any:
        setattr(writer, _TRIGGER_NAMED, True)
        return set_trigger(writer, *args, **options)

    set_function = DataStreamWriter.foreachBatch

    @functools.wraps(set_function)
    def foreach_batch(writer: Any, func: Any) -> Any:
        setattr(writer, _FUNCTION, func)
        return set_function(writer, func)

    DataStreamWriter.trigger = trigger  # type: ignore[method-assign,assignment]
    DataStreamWriter.foreachBatch = foreach_batch  # type: ignore[method-assign,assignment]
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
    """What a streaming relation reads. A kind of relation that names no format is the format itself."""
    kind = str(relation.getClass().getSimpleName())
    if kind == "StreamingRelation":
        source = relation.dataSource()
        options = source.options()
        path = options.get("path")
        left_out = any(options.get(name).isDefined() for name in _LEAVES_OUT)
        place = str(path.get()) if path.isDefined() else None
        return NamedInput(format=str(source.className()), path=place, whole=not left_out)
    if kind == "StreamingRelationV2":
        return NamedInput(format=str(relation.sourceName()), topic=relation.extraOptions().get("subscribe"))
    return NamedInput(format=kind)


def private_field(jvm_object: Any, name: str) -> Any:
    """A private field of one of Spark's own readers or writers: no method returns it."""
    return _declared(jvm_object, name).get(jvm_object)


def set_private_field(jvm_object: Any, name: str, value: Any) -> None:
    """Set what `private_field` returns."""
    _declared(jvm_object, name).set(jvm_object, value)


def _declared(jvm_object: Any, name: str) -> Any:
    """A field of the object's class or of one that it extends."""
    kind = jvm_object.getClass()
    while not any(each.getName() == name for each in kind.getDeclaredFields()):
        kind = kind.getSuperclass()
    field = kind.getDeclaredField(name)
    field.setAccessible(True)
    return field


def options_of(jvm_object: Any) -> dict[str, str | None]:
    """The options that were set on one of Spark's readers or writers, with names in lower case."""
    pairs = private_field(jvm_object, "extraOptions").iterator()
    found: dict[str, str | None] = {}
    while pairs.hasNext():
        pair = pairs.next()
        found[str(pair._1()).lower()] = str(pair._2())
    return found
