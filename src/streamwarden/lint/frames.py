"""What the methods of frames mean for state: which carry a watermark on, which keep state, and what bounds it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from streamwarden.lint.facts import Bound, Kind, Operator, SinkUse
from streamwarden.lint.finding import Origin
from streamwarden.lint.processors import bound_of
from streamwarden.lint.query_count import QueryCount
from streamwarden.lint.values import (
    Constant,
    Frame,
    Function,
    Grouped,
    Instance,
    Many,
    Reader,
    Unknown,
    Value,
    Writer,
    alias_of,
    mentions,
)
from streamwarden.stream import OutputMode, StreamSpec

ON_FRAMES: Final = frozenset(
    {"withWatermark", "dropDuplicates", "drop_duplicates", "dropDuplicatesWithinWatermark", "groupBy", "groupby"}
)
"""Methods that only a DataFrame has: what they are called on is one, wherever it came from."""

_LOADS: Final = frozenset({"load", "json", "csv", "parquet", "orc", "text", "table", "jdbc", "xml"})
_DEDUPLICATE: Final = frozenset({"dropDuplicates", "drop_duplicates", "distinct"})
_GROUPS: Final = frozenset({"groupBy", "groupby", "rollup", "cube"})
_AGGREGATES: Final = frozenset({"agg", "count", "sum", "avg", "mean", "min", "max"})
_PROCESSORS: Final = frozenset({"transformWithState", "transformWithStateInPandas"})
_NAMES: Final = frozenset({"select", "selectExpr", "withColumn", "withColumns", "withColumnRenamed", "toDF"})


class Frames:
    """Applies methods to frames, and notes each stateful operator and each sink that it meets.

    Args:
        call: calls a function of the job.
    """

    def __init__(
        self, spec: StreamSpec, call: Callable[[Function, Sequence[Value], Mapping[str, Value]], Value | None]
    ) -> None:
        self.operators: dict[tuple[int, str], Operator] = {}
        self.writers: list[Writer] = []
        self.lost = False
        self.started = QueryCount()
        self._complete = spec.sink.mode is OutputMode.COMPLETE
        self._call = call

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is followed inside only counts starts: its operators and sinks are not the job's known ones."""
        operators, writers, lost = dict(self.operators), list(self.writers), self.lost
        try:
            yield
        finally:
            self.operators, self.writers, self.lost = operators, writers, lost

    def writer(self, frame: Frame, line: int) -> Writer:
        self.lost = self.lost or not frame.known
        self.writers.append(Writer(line))
        return self.writers[-1]

    def sinks(self) -> Iterable[SinkUse]:
        seen = {}
        for each in self.writers:  # a function that was followed twice wrote twice
            seen[each.line] = SinkUse(format=each.format, line=each.line, uses_batch_id=each.uses_batch_id)
        return seen.values()

    def method(
        self, of: Value, name: str, given: Sequence[Value], named: Mapping[str, Value], line: int
    ) -> Frame | Grouped | Writer | Reader | Unknown:
        """The result of `of.name(…)`."""
        match of:
            case Reader():
                return Frame(streaming=of.streaming) if name in _LOADS else of
            case Writer():
                return self._write(of, name, given)
            case Grouped():
                return self._of_groups(of, name, given, named, line)
            case Frame():
                return self._of_frame(of, name, given, named, line)
            case _:
                return Unknown()

    # Frames

    def _of_frame(
        self, frame: Frame, name: str, given: Sequence[Value], named: Mapping[str, Value], line: int
    ) -> Frame | Grouped | Unknown:
        if name == "withWatermark":
            return frame.with_watermarks(*mentions(given[0])) if given else frame
        if name in _GROUPS:
            return Grouped(frame, tuple(_key(each) for each in _flat(given)))
        if name in _DEDUPLICATE or name == "dropDuplicatesWithinWatermark":
            self._deduplicate(frame, name, given, named, line)
            return frame
        if name == "agg":
            return self._aggregate(Grouped(frame, ()), name, line)
        if name in ("join", "crossJoin", "union", "unionByName", "unionAll") and given:
            return self._two(frame, name, given, named, line)
        if name in _NAMES:
            return _renamed(frame, name, [*_flat(given), *named.values()])
        if name == "transform" and given and isinstance(given[0], Function):
            result = self._call(given[0], [frame, *given[1:]], named)
            return result if isinstance(result, Frame | Grouped) else replace(frame, known=False)
        if name == "transform":
            self.started.lose()  # a function that is not in sight gets the frame
        return frame

    def _deduplicate(
        self, frame: Frame, name: str, given: Sequence[Value], named: Mapping[str, Value], line: int
    ) -> None:
        columns = mentions(Many((*given, named.get("subset", Unknown()))))
        if not frame.watermarks:
            bound, why = self._unmarked(frame, f"{name} without a watermark remembers every row that ever came")
        elif name == "dropDuplicatesWithinWatermark" or not columns or columns & frame.watermarks:
            bound, why = Bound.WATERMARK, f"the watermark on {_and(frame.watermarks)} ends it"
        else:
            marked = _and(frame.watermarks)
            bound, why = Bound.NONE, f"the watermark's column {marked} is not among the columns {_and(columns)}"
        self._note(frame, Kind.DEDUPLICATION, name, bound, why, line)

    def _two(self, left: Frame, name: str, given: Sequence[Value], named: Mapping[str, Value], line: int) -> Frame:
        right = given[0]
        if not isinstance(right, Frame):
            return replace(left, known=False)
        both = Frame(
            streaming=_either(left.streaming, right.streaming),
            known=left.known and right.known,
            watermarks=left.watermarks | (right.watermarks if "oin" in name else frozenset()),
        )
        if "oin" not in name or False in (left.streaming, right.streaming):
            return both  # a union, or a join with a table: no state
        on = mentions(Many((*given[1:2], named.get("on", Unknown()))))
        if not (left.watermarks and right.watermarks):
            lacking = " and ".join(side for side, frame in (("left", left), ("right", right)) if not frame.watermarks)
            told = f"without a watermark on the {lacking} side it keeps every row of both"
            bound, why = self._unmarked(both, told)
        elif on & left.watermarks and on & right.watermarks:
            bound, why = (
                Bound.WATERMARK,
                f"both sides have a watermark, and the condition names {_and(on & both.watermarks)}",
            )
        else:
            bound, why = Bound.NONE, "the condition sets no bound between the watermarks' columns of the two sides"
        self._note(both, Kind.JOIN, name, bound, why, line)
        return both

    # Groups

    def _of_groups(
        self, groups: Grouped, name: str, given: Sequence[Value], named: Mapping[str, Value], line: int
    ) -> Frame | Grouped:
        if name in _AGGREGATES:
            return self._aggregate(groups, name, line)
        if name == "pivot":
            return groups
        if name in _PROCESSORS:
            self._processor(groups.frame, name, given, named, line)
        elif name == "applyInPandasWithState":
            timeout = mentions(Many((*given[4:5], named.get("timeoutConf", Unknown()))))
            without = not timeout or "NoTimeout" in timeout
            told = "its timeout is NoTimeout" if without else f"its timeout is {_and(timeout)}"
            bound = Bound.NONE if without else Bound.TIMEOUT
            self._note(groups.frame, Kind.GROUP_STATE, name, bound, told, line)
        return replace(groups.frame, watermarks=frozenset() if name in _PROCESSORS else groups.frame.watermarks)

    def _aggregate(self, groups: Grouped, name: str, line: int) -> Frame:
        frame = groups.frame
        timed = [key for key in groups.keys if key.mentions & frame.watermarks]
        after = frozenset(
            {key.alias for key in timed if key.alias} | {n for k in timed for n in k.mentions & frame.watermarks}
        )
        if not groups.keys:
            bound, why = Bound.ONE_ROW, "it groups by nothing"
        elif self._complete:
            bound, why = Bound.NONE, "in output mode complete every group stays, watermark or not"
        elif not frame.watermarks:
            bound, why = self._unmarked(frame, "it groups without a watermark: every group that ever was stays")
        elif timed:
            bound, why = Bound.WATERMARK, f"the watermark on {_and(frame.watermarks)} closes its groups"
        else:
            bound, why = Bound.NONE, f"no key holds the watermark's column {_and(frame.watermarks)}"
        self._note(frame, Kind.AGGREGATION, name, bound, why, line)
        return replace(frame, watermarks=after)

    def _processor(
        self, frame: Frame, name: str, given: Sequence[Value], named: Mapping[str, Value], line: int
    ) -> None:
        processor = given[0] if given else named.get("statefulProcessor")
        if isinstance(processor, Instance):
            bound, why = bound_of(processor.of, processor.fields)
        else:
            bound, why = Bound.UNKNOWN, "the class of its processor was not found"
        self._note(frame, Kind.PROCESSOR, name, bound, why, line)

    # Sinks

    def _write(self, writer: Writer, name: str, given: Sequence[Value]) -> Writer | Unknown:
        if name == "format" and given:
            value = given[0].value if isinstance(given[0], Constant) else None
            writer.format = value if isinstance(value, str) else None
        elif name == "foreach":
            writer.format = name
        elif name == "foreachBatch":
            writer.format = name
            writer.uses_batch_id = _uses_second(given[0]) if given and isinstance(given[0], Function) else None
        elif name == "toTable":
            writer.format = "table"
        if name not in ("start", "toTable"):
            return writer
        self.started.add()
        return Unknown()

    # Notes

    def _unmarked(self, frame: Frame, told: str) -> tuple[Bound, str]:
        """Where no watermark was seen: it may have been set where nobody looked."""
        return (Bound.NONE, told) if frame.known else (Bound.UNKNOWN, f"{told}, unless one was set where it was made")

    def _note(self, frame: Frame, kind: Kind, name: str, bound: Bound, why: str, line: int) -> None:
        if frame.streaming is not False:
            operator = Operator(kind=kind, name=name, bound=bound, why=why, origin=Origin.JOB, where=f"line {line}")
            self.operators[(line, name)] = operator


def _renamed(frame: Frame, name: str, given: Sequence[Value]) -> Frame:
    """The watermark goes with its column under a new name."""
    texts = [each.value for each in given if isinstance(each, Constant) and isinstance(each.value, str)]
    if name == "withColumnRenamed" and len(texts) == 2:
        return frame.with_watermarks(texts[1]) if texts[0] in frame.watermarks else frame
    if name == "withColumn" and len(given) == 2 and texts and mentions(given[1]) & frame.watermarks:
        return frame.with_watermarks(texts[0])
    new = [alias for each in given if (alias := alias_of(each)) and mentions(each) & frame.watermarks]
    return frame.with_watermarks(*new)


def _key(value: Value) -> Unknown:
    return Unknown(mentions(value), alias_of(value))


def _flat(values: Iterable[Value]) -> list[Value]:
    """`groupBy(["a", "b"])` is `groupBy("a", "b")`."""
    return [inner for each in values for inner in (each.items if isinstance(each, Many) else (each,))]


def _either(one: bool | None, other: bool | None) -> bool | None:
    if True in (one, other):
        return True
    return None if None in (one, other) else False


def _and(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _uses_second(function: Function) -> bool:
    """Whether the function looks at its second parameter: of foreachBatch, the batch's id."""
    arguments = [each.arg for each in (*function.node.args.posonlyargs, *function.node.args.args)]
    if len(arguments) < 2:
        return False
    body = function.node.body if isinstance(function.node.body, list) else [function.node.body]
    names = (each for part in body for each in ast.walk(part) if isinstance(each, ast.Name))
    return any(each.id == arguments[1] for each in names)
