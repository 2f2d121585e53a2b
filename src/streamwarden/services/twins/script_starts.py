"""What the starts of a script show of its queries: which of them each start made, and what they read. Pure."""

from collections.abc import Iterator, Sequence

from streamwarden.lifecycle.forks.script_sources import changes
from streamwarden.lifecycle.forks.scripts import ForkQuery, OutputKind
from streamwarden.verification.batches import some


def start_problems(query: ForkQuery, fork: Sequence[ForkQuery], twin: Sequence[ForkQuery]) -> list[str]:
    """In what the later starts of the fork's script, and the twin's start, differ from the first one for a query.

    Args:
        fork, twin: every query that each of them started.
    """
    newest = max(started.life for started in fork)
    declared_there = next((started.sources for started in twin if started.name == query.name), query.sources)
    in_twin = (f"in the twin {change}" for change in changes(query.sources, declared_there))
    problems = some("another start of the script declared other sources", [*query.changed, *in_twin])
    if query.life < newest:
        problems.append(f"only {query.life} of {newest} starts of the script started this query, and not the last one")
    return problems


def never_started(fork: Sequence[ForkQuery], twin: Sequence[ForkQuery]) -> list[str]:
    """The queries with an output that the twin started and the fork did not, as problems."""
    names = {query.name for query in fork}
    return [
        f"{query.name}: no start of the fork started this query, and the twin did"
        for query in twin
        if query.name not in names and query.kind is not OutputKind.NOTHING
    ]


def not_checked(queries: Sequence[ForkQuery]) -> Iterator[str]:
    """What of the queries no comparison shows, in words."""
    for query in queries:
        if query.kind is OutputKind.NOTHING:
            yield f"not compared: the query {query.name}, which writes to {query.format} and keeps no output"
        else:
            yield from (f"not checked: {what}, by the query {query.name}" for what in query.unchecked)
