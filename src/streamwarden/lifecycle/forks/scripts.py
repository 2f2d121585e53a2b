"""Redirect each query that the fork of a script starts. Pure.

The script stays as it is and names its own places. In a fork, each query gets a folder of the fork for its checkpoint
and one for its output instead. Files in a format that can be read back are written by Spark's own sink. The rows of any
other output are captured: each batch as Parquet files, in a folder with the number of the batch.
"""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from streamwarden.checkpoint.captures import WRITES
from streamwarden.errors import JobError
from streamwarden.lifecycle.forks.script_sources import changes, declared, is_whole, unchecked
from streamwarden.lifecycle.location import URL, overlap, plain_path, same_place
from streamwarden.lifecycle.queries import name_of
from streamwarden.lifecycle.script_queries import NamedInput, NamedQuery, WritingFunction, located
from streamwarden.stream.spec import ScriptFork, StreamSpec

INDEX: Final = "_queries"
"""The folder in the fork's output with one document for each query that was started."""

_KEEPS_NOTHING: Final = frozenset({"console", "noop", "memory"})
"""Formats without an output that remains: there is nothing to prove."""

_FUNCTIONS: Final = {"foreachbatch": "foreachBatch", "foreach": "foreach"}
"""Formats under which a function of the script gets the rows, and what the function is passed to."""

_READ_BACK: Final = frozenset({"parquet", "orc", "json", "text"})
"""Formats of files that are read back as Spark's own sink writes them."""

_SPELLS: Final = frozenset({"compression", "timestampformat", "dateformat", "linesep", "encoding"})
"""Options that decide how a file is spelled: a query that sets one of them is captured."""


class OutputKind(StrEnum):
    FILES = "files"  # Spark's own sink writes it, under its manifest
    CAPTURE = "capture"  # the rows that the query hands over, one folder for each batch
    WRITES = "writes"  # the files of one folder that the function of a query wrote itself
    NOTHING = "nothing"  # the query keeps no output


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkQuery:
    """A query of the fork of a script, as its driver started it.

    Args:
        name: within the fork; the same one in each start of the script.
        order: 1 for the first that the script starts.
        checkpoint, output: of the fork; None: it keeps no output.
        instead_of: the stream's own output, in words: `the topic alerts`.
        format: as the script names it, in lower case.
        function: of the script, that gets the rows of its batches, if it is known.
        inputs: folders, and topics as `topic NAME`, that it reads.
        sources: as its first start in the fork declared them; changed: in what later starts declared other ones.
        listed: the files that were there at that first start, by folder, of the folders that it reads as a whole.
        life: the newest start of the script that started it, 1 for the first.
    """

    name: str
    order: int
    checkpoint: str
    kind: OutputKind
    output: str | None
    instead_of: str
    format: str
    function: WritingFunction | None = None
    inputs: tuple[str, ...] = ()
    sources: tuple[NamedInput, ...] = ()
    changed: tuple[str, ...] = ()
    listed: dict[str, list[str]] = field(default_factory=dict)
    life: int = 1

    @property
    def whole(self) -> tuple[NamedInput, ...]:
        """The sources of which it reads each file of a folder."""
        return tuple(source for source in self.sources if is_whole(source))

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What of its input no one checks, in words."""
        found = (unchecked(source, can_list=str(source.path) in self.listed) for source in self.sources)
        return tuple(what for what in found if what is not None)

    def began_as(self, first: "ForkQuery | None") -> "ForkQuery":
        """The query with what its first start declared; None: this is its first start."""
        if first is None:
            return self
        new = [change for change in changes(first.sources, self.sources) if change not in first.changed]
        return replace(self, sources=first.sources, listed=first.listed, changed=(*first.changed, *new))

    @property
    def has_function(self) -> bool:
        """The script passes a function to foreachBatch, which the fork may call."""
        return self.format == "foreachbatch"

    def writes(self, folder: str) -> "ForkQuery":
        """What its function wrote itself into a folder, as an output that is compared like a query's."""
        place = f"{WRITES}/{folder}"
        instead = f"what {self.instead_of} wrote to {folder}"
        return replace(
            self,
            name=f"{self.name}/{place}",
            kind=OutputKind.WRITES,
            output=f"{self.output}/{place}",
            instead_of=instead,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedQuery:
    """A query of the script before the fork redirects it.

    Args:
        identity: its own checkpoint; None if it names none.
        output: the stream's own folder, or `topic NAME`, `table NAME`; None if it names none.
    """

    name: str
    identity: str | None
    output: str | None
    inputs: tuple[str, ...]


class ForkQueries:
    """The queries of one driver of a fork, in the order in which they start."""

    def __init__(self, spec: StreamSpec, script: ScriptFork) -> None:
        self._spec = spec
        self._script = script
        self._started: list[StartedQuery] = []

    def redirected(
        self,
        named: NamedQuery,
        inputs: Sequence[NamedInput],
        *,
        options: Mapping[str, str | None],
        partitioned: bool,
        append: bool,
    ) -> ForkQuery:
        """The query as the fork runs it. Raises JobError for one that the fork cannot keep apart from its stream.

        Args:
            options: of its writer, with names in lower case.
            partitioned: its files are in a folder for each value; append: its output mode.
        """
        query = self._seen(named, inputs)
        others = [started for started in self._started if started.name != query.name]
        chain = chained(query, others)
        if chain is not None:
            raise _chained(self._spec, *chain)
        order = next((at for at, started in enumerate(self._started, 1) if started.name == query.name), 0)
        if not order:
            self._started.append(query)
            order = len(self._started)
        kind = output_kind(named.format or "", options, partitioned=partitioned, append=append)
        return ForkQuery(
            name=query.name,
            order=order,
            checkpoint=posixpath.join(self._spec.checkpoint, query.name),
            kind=kind,
            output=None if kind is OutputKind.NOTHING else posixpath.join(self._script.output, query.name),
            instead_of=in_words(named, query.output),
            format=(named.format or "").lower(),
            inputs=query.inputs,
            sources=tuple(declared(source, input_place(self._spec, source)) for source in inputs),
        )

    def _seen(self, named: NamedQuery, inputs: Sequence[NamedInput]) -> StartedQuery:
        place = self._own(located(self._spec, named.checkpoint) or named.checkpoint)
        again = next((started for started in self._started if place is not None and started.identity == place), None)
        name = query_name(self._script.queries, named.name, place, len(self._started) + 1)
        if again is not None and (again.name == name or named.name is None):
            name = again.name
        other = next((started for started in self._started if started.name == name), None)
        if other is not None and other.identity != place:
            raise _same_name(self._spec, name)
        return StartedQuery(
            name=name,
            identity=place,
            output=self._own(output_place(self._spec, named)),
            inputs=tuple(
                place for source in inputs if (place := self._own(input_place(self._spec, source))) is not None
            ),
        )

    def _own(self, place: str | None) -> str | None:
        """The stream's own place that a relative path in the fork's working folder means."""
        if place is None or not self._script.data or not inside(place, self._spec.data):
            return place
        return self._script.data + plain_path(place).removeprefix(plain_path(self._spec.data))


def query_name(declared: Mapping[str, str | None], given: str | None, checkpoint: str | None, order: int) -> str:
    """The name of a query: its `queryName`, else the declared name of its checkpoint, else its order.

    Args:
        declared: the declared queries of the stream, with their own checkpoints.
        checkpoint: the query's own.
    """
    if given:
        return name_of(given, "", {})
    if checkpoint is not None:
        place = checkpoint
        at = next((name for name, own in declared.items() if own is not None and same_place(place, own)), None)
        folder = name_of(None, place, {})
        if at is not None or folder in declared:
            return at or folder
    return f"query_{order}"


def output_kind(
    format: str, options: Mapping[str, str | None], *, partitioned: bool = False, append: bool = True
) -> OutputKind:
    """How the fork keeps the output of a query."""
    name = format.lower()
    if name in _KEEPS_NOTHING:
        return OutputKind.NOTHING
    plain = name in _READ_BACK and append and not partitioned and not {"table", *_SPELLS} & set(options)
    return OutputKind.FILES if plain else OutputKind.CAPTURE


def has_output(formats: Iterable[str | None]) -> bool:
    """Whether a script with queries of these formats (None: unknown) may have an output to prove."""
    names = list(formats)
    return not names or any(name is None or name.lower() not in _KEEPS_NOTHING for name in names)


def output_place(spec: StreamSpec, named: NamedQuery) -> str | None:
    """The stream's own output of a query."""
    path = located(spec, named.path) or named.path
    if path is not None:
        return path
    return _broker_place(named.topic) or (f"table {named.table}" if named.table else None)


def input_place(spec: StreamSpec, named: NamedInput) -> str | None:
    """A query's input."""
    return located(spec, named.path) or named.path or _broker_place(named.topic)


def _broker_place(topic: str | None) -> str | None:
    return f"topic {topic}" if topic else None


def chained(query: StartedQuery, others: Iterable[StartedQuery]) -> tuple[StartedQuery, StartedQuery, str] | None:
    """The two queries of which the first reads what the second writes, and what that is; None if there are none."""
    for other in others:
        for reader, writer in ((query, other), (other, query)):
            for read in reader.inputs:
                if writer.output is not None and reads(read, writer.output):
                    return reader, writer, read
    return None


def reads(read: str, written: str) -> bool:
    """Whether what a query reads is what a query writes."""
    if read.startswith("topic ") or written.startswith(("topic ", "table ")):
        return written in [f"topic {topic.strip()}" for topic in read.removeprefix("topic ").split(",")]
    return overlap(read.partition("*")[0], written)


def in_words(named: NamedQuery, output: str | None) -> str:
    """The stream's own output of a query, for people."""
    function = _FUNCTIONS.get((named.format or "").lower())
    if function is not None:
        return f"the function that the script passes to {function}"
    if output is None:
        return f"the output of the format {named.format}"
    return output if output.startswith("/") or URL.match(output) else f"the {output}"


def inside(place: str, folder: str) -> bool:
    """Whether a place is the folder or is in it."""
    return same_place(place, folder) or plain_path(place).startswith(f"{plain_path(folder)}/")


def _chained(spec: StreamSpec, reader: StartedQuery, writer: StartedQuery, place: str) -> JobError:
    return JobError(
        f"the query {reader.name} of the script reads {place}, which its query {writer.name} writes: a fork redirects "
        "what it writes, so the first would read what the stream itself wrote",
        expected="a script whose queries do not read what the others write",
        where=spec.job,
        next_step="give each of the two queries a script and a stream, and drill each of them",
    )


def _same_name(spec: StreamSpec, name: str) -> JobError:
    return JobError(
        f"the script starts two queries with the name {name}, on two checkpoints",
        expected="one name for each query, under which a fork keeps its checkpoint and its output",
        where=spec.job,
        next_step="give each query another name with queryName()",
    )
