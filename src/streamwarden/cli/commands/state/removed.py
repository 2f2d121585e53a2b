"""`state removed`: what left the state of a stream in its newest batches."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from streamwarden.cli.commands.state.showing import Stream
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import NONE, ago, number
from streamwarden.cli.output import as_json, table, text
from streamwarden.cli.session import AsJson, workspace
from streamwarden.services.overview.anatomy import moment_words


def removed(
    context: typer.Context,
    stream: Stream,
    last: Annotated[int, typer.Option(min=1, max=1000, help="The newest so many batches.")] = 10,
    json: AsJson = False,
) -> int:
    """Show what left the state in each batch: rows evicted by the watermark or a timeout, values whose time to live was
    over, timers that fired, rows that came too late. From Spark's progress; the newest batch is last.

    How many bytes that freed no report says: RocksDB frees them when it compacts, later.
    """
    from streamwarden.services.state.removals import removals

    space = workspace(context)
    found = removals(space.store.batches.window(space.query(stream).name, last))
    if json:
        as_json({"stream": stream, "removals": found})
        return Exit.OK
    now = time.time()
    table(
        ("batch", "when", "watermark", "operator", "removed", "expired", "timers", "late", "removal ms", "rows left"),
        [
            (
                str(one.batch),
                ago(one.at, now),
                NONE if one.watermark is None else moment_words(int(one.watermark * 1000)),
                f"{one.operator} {text(one.name)}",
                *map(number, (one.removed, one.expired, one.timers, one.late, one.removal_ms, one.left)),
            )
            for one in found
        ],
        empty=f"The store has no report of a batch of {text(stream)} with state.",
    )
    return Exit.OK
