"""Compare the settings of a query in a script with those in the stream's file. Pure.

The declared checkpoint and trigger apply where the script names none. Where the script names one, it has to be the
declared one: the lease, the checks and the verification go by the stream's file.
"""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import eq
from types import FunctionType, MethodType
from typing import Final

from streamwarden.lifecycle.location import below, is_relative, overlap, same_place
from streamwarden.lifecycle.queries import name_of
from streamwarden.stream.spec import SinkSpec, SourceSpec, StreamSpec, TriggerSpec
from streamwarden.units import format_duration

_OWN_CODE: Final = frozenset({"foreachbatch", "foreach"})
"""Formats of a query whose rows a function of the script writes, into whatever format that function chooses."""

_SET: Final = frozenset({"checkpoint", "trigger"})
"""Keys whose declared value Streamwarden sets where the script names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedQuery:
    """Settings of a query in a script; None: not set, or not readable. `line`: of the script's text; None if the query
    was seen at its start."""

    name: str | None = None
    checkpoint: str | None = None
    format: str | None = None
    path: str | None = None
    topic: str | None = None
    table: str | None = None
    trigger: TriggerSpec | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedInput:
    """Settings of a source in a script; None: not readable.

    Args:
        format: as the script names it; of a table, its name.
        options: those that are known; schema: of its rows, in Spark's words.
    """

    format: str | None = None
    path: str | None = None
    topic: str | None = None
    line: int | None = None
    options: Mapping[str, str] = field(default_factory=dict, compare=False)
    schema: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingFunction:
    """A function that a job passes to foreachBatch.

    Args:
        line: the first one of its definition.
        bound: parameters that are given before the rows and the batch's id: `self`, or those of a partial.
    """

    name: str
    file: str
    line: int
    bound: int = 0

    def __str__(self) -> str:
        called = "a lambda" if self.name == "<lambda>" else f"the function {self.name}()"
        return f"{called} ({posixpath.basename(self.file)}:{self.line})"


def writing_function(given: object) -> WritingFunction | None:
    """The function that is called in the end; None: it is not written in Python, or is an object with `__call__`."""
    bound = 0
    while isinstance(given, partial | MethodType):
        bound += len(given.args) if isinstance(given, partial) else 1
        given = given.func if isinstance(given, partial) else given.__func__
    if not isinstance(given, FunctionType):
        return None
    code = given.__code__
    return WritingFunction(name=code.co_name, file=code.co_filename, line=code.co_firstlineno, bound=bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A value that the script names and another one that the file declares.

    Args:
        subject: `checkpoint`, `output folder`, …
        key: of the stream's file.
        optional: Streamwarden sets the declared value where the script names none.
    """

    subject: str
    named: str
    declared: str
    key: str
    line: int | None
    optional: bool = False

    @property
    def observed(self) -> str:
        return f"the script names the {self.subject} {self.named}"

    @property
    def expected(self) -> str:
        return f"the {self.subject} that the stream's file declares, {self.declared}"

    @property
    def next_step(self) -> str:
        other = f"; without a {self.subject} in the script, Streamwarden sets the declared one" if self.optional else ""
        return f"make the script and `{self.key}` the same{other}"


def query_contradictions(
    spec: StreamSpec, query: NamedQuery, *, single: bool, trigger_written: bool
) -> tuple[Contradiction, ...]:
    """Where the query contradicts the stream's file.

    Args:
        single: it is known to be the script's only query. Of several, each has its own output and trigger.
        trigger_written: the file names a trigger. A query's own trigger does not contradict the default.
    """
    if spec.queries:
        return tuple(_declared_checkpoint(spec, query))
    if not single:
        return ()
    sink: SinkSpec = spec.sink
    trigger = shown(query.trigger) if query.trigger is not None and trigger_written else None
    return _differing(
        query.line,
        ("checkpoint", "checkpoint", located(spec, query.checkpoint), spec.checkpoint, same_place),
        ("output format", "sink.kind", _format(query), sink.spark_format, eq),
        ("output folder", "sink.path", located(spec, query.path), sink.path, same_place),
        ("topic", "sink.topic", query.topic, sink.topic, eq),
        ("trigger", "trigger", trigger, shown(spec.trigger), eq),
    )


def input_contradictions(spec: StreamSpec, inputs: Sequence[NamedInput]) -> tuple[Contradiction, ...]:
    """Where the only source of a script is not the declared one. Of several sources none is compared."""
    source: SourceSpec = spec.source
    if len(inputs) != 1 or source.parts:
        return ()
    only = inputs[0]
    return _differing(
        only.line,
        ("input folder", "source.path", located(spec, only.path), source.path, same_place),
        ("topic", "source.topic", only.topic, source.topic, eq),
    )


def _differing(
    line: int | None, *pairs: tuple[str, str, str | None, str | None, Callable[[str, str], bool]]
) -> tuple[Contradiction, ...]:
    """The pairs (subject, key, value in the script, declared value, comparison) whose values are known and differ."""
    return tuple(
        Contradiction(subject=subject, named=named, declared=declared, key=key, line=line, optional=key in _SET)
        for subject, key, named, declared, same in pairs
        if named is not None and declared is not None and not same(named, declared)
    )


def located(spec: StreamSpec, path: str | None) -> str | None:
    """The place that a path of the script means: a relative one is below the data folder, whatever URL the relative
    ones of its file are below.

    None if that is not known, because the spec was not read from a file.
    """
    if path is None or (is_relative(path) and not spec.data):
        return None
    return below(path, spec.data)


def declared_checkpoint(spec: StreamSpec, query: NamedQuery, *, starts: int | None) -> str | None:
    """The checkpoint for a query that names none; None if several are declared and its name does not say which.

    The only query of a script has the declared checkpoint. Of several, each has a folder in it, by the query's name or
    else by its output: the same one in each run.

    Args:
        starts: how many queries the script starts, by its text; None where the text does not say.
    """
    if spec.queries:
        name = name_of(query.name, "", {}) if query.name else next(iter(spec.queries))
        if name not in spec.queries or (query.name is None and len(spec.queries) > 1):
            return None
        return spec.queries[name] or posixpath.join(spec.checkpoint, name)
    if (starts or 1) == 1:
        return spec.checkpoint
    label = query.name or query.path or query.topic or query.table or query.format
    return posixpath.join(spec.checkpoint, name_of(query.name, label or "", {}))


def taken_by(place: str, used: Iterable[str]) -> str | None:
    """The used checkpoint that `place` is, contains or is inside of."""
    return next((checkpoint for checkpoint in used if overlap(place, checkpoint)), None)


def _declared_checkpoint(spec: StreamSpec, query: NamedQuery) -> Iterator[Contradiction]:
    """A query is one of `queries` by its checkpoint, else by its name or the last folder of its checkpoint."""
    place = located(spec, query.checkpoint)
    if place is None or any(same_place(place, checkpoint) for checkpoint in spec.queries.values() if checkpoint):
        return
    guesses = name_of(query.name, place, {}), name_of(None, place, {})
    name = next((guess for guess in guesses if guess in spec.queries), None)
    if name is None or spec.queries[name] is not None:
        declared = spec.queries[name] if name else None
        yield Contradiction(
            subject="checkpoint",
            named=place,
            declared=declared or f"one of the declared queries {', '.join(spec.queries)}",
            key=f"queries.{name}" if name else "queries",
            line=query.line,
            optional=name is not None,
        )


def _format(query: NamedQuery) -> str | None:
    name = None if query.format is None else query.format.lower()
    return None if name in _OWN_CODE else name


def shown(trigger: TriggerSpec) -> str:
    """A trigger as the stream's file names it."""
    if trigger.available_now:
        return "available_now: true"
    if trigger.real_time is not None:
        return f"real_time: {format_duration(trigger.real_time)}"
    return f"processing_time: {format_duration(trigger.processing_time or 0.0)}"
