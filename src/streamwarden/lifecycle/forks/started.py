"""Reads which queries the drivers of a script's fork have started, from what they left in the fork's output."""

from pathlib import Path
from typing import Any

from streamwarden.lifecycle.driver_folder import read_document
from streamwarden.lifecycle.forks.scripts import INDEX, ForkQuery, OutputKind
from streamwarden.lifecycle.script_queries import NamedInput, WritingFunction
from streamwarden.stream.spec import ScriptFork, StreamSpec


def fork_queries(spec: StreamSpec) -> tuple[ForkQuery, ...]:
    """The queries that the drivers of a script's fork have started, those with an output first, then by their order.

    Empty before the first one started, and for every other stream."""
    if spec.fork is None:
        return ()
    queries = started_queries(spec.fork)
    return tuple(sorted(queries, key=lambda query: (query.kind is OutputKind.NOTHING, query.order)))


def started_queries(script: ScriptFork) -> list[ForkQuery]:
    """The queries that the drivers of a fork have recorded."""
    documents = [read_document(path) for path in sorted(Path(script.output, INDEX).glob("*.json"))]
    return [_query(document) for document in documents if document]


def _query(document: dict[str, Any]) -> ForkQuery:
    sources = tuple(NamedInput(**source) for source in document["sources"])
    texts = {name: tuple(document[name]) for name in ("inputs", "changed")}
    given = document["function"]
    function = None if given is None else WritingFunction(**given)
    typed = {**texts, "sources": sources, "function": function, "kind": OutputKind(document["kind"])}
    return ForkQuery(**{**document, **typed})
