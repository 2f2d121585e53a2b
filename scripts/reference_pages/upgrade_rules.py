"""The reference page of the changes of a job, from the table of what Spark does with each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamwarden.lifecycle.upgrades.rules import RULES, Rule

_HEAD: Final = """\
# Changes of a job, and what Spark does with them

A query goes on from its checkpoint with the job as it is then. Spark compares the new query with the checkpoint, but
not in everything. This table says what it does with each change; every row was tried with Spark 4.3, on RocksDB.
[`streamwarden upgrade`](../how-to/upgrade.md) finds these changes on a fork, before the stream is touched.

- **accepted**: the query goes on, and is right.
- **refused**: the query ends with the error before it runs a batch. The checkpoint is as it was.
- **accepted, and wrong**: the query goes on, and old state is read under a meaning that it does not have.
- **accepted, and ignored**: the query goes on with what the checkpoint has fixed.

"""


def page() -> str:
    """The whole page, in Markdown."""
    return _HEAD + "\n".join(_rows()) + "\n"


def _rows() -> Iterator[str]:
    yield "| change | Spark | error | what to do |"
    yield "|---|---|---|---|"
    yield from map(_row, RULES)


def _row(rule: Rule) -> str:
    error = f"`{rule.error_class}`" if rule.error_class is not None else ""
    return f"| {rule.change} | {rule.outcome} | {error} | {rule.what_to_do} |"
