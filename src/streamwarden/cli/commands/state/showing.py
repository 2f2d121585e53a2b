"""`state show`, `state export`, `state diff`: look at the state of a stream as it was after a batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamwarden.cli.commands.state.showing_words import (
    changed_words,
    entry_words,
    growth_words,
    key_words,
    share_cells,
    value_words,
    what_happened,
)
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import NONE, ago, number
from streamwarden.cli.output import as_json, plain, say, table, text
from streamwarden.cli.session import AsJson, workspace
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.time_travel.answers import stretches
from streamwarden.services.overview.anatomy import moment_words, versions_words

if TYPE_CHECKING:
    from streamwarden.lifecycle.time_travel.answers import Difference, History, Share, Shown
    from streamwarden.services.state.looking import Look, Selection

app = typer.Typer(no_args_is_help=True, help="State: look at it as it was after a batch, while the stream runs.")

_SHARES = 5
"""Partitions and keys that are shown, the largest."""

Stream = Annotated[
    str, typer.Argument(metavar="STREAM", help="Name of a stream, or STREAM/QUERY of a script with several queries.")
]
Batch = Annotated[
    int | None, typer.Option(min=0, help="Look at the state after this batch.", show_default="the newest committed")
]
Operator = Annotated[
    int | None, typer.Option(min=0, help="Number of the operator; needed if several keep state.", show_default=False)
]
Variable = Annotated[
    str | None,
    typer.Option(
        help="A state variable of transformWithState, `timers`, or `left` or `right` of a join.", show_default=False
    ),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="[FIELD=]VALUE",
        help="Only this key. FIELD may be left out if the key has one field; repeat it for several fields.",
    ),
]
Rows = Annotated[int, typer.Option(min=1, max=100_000, help="Rows to show at most.")]


@app.command()
def show(
    context: typer.Context,
    stream: Stream,
    batch: Batch = None,
    key: Keys = None,
    operator: Operator = None,
    variable: Variable = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show the key after each batch that the checkpoint keeps.")
    ] = False,
    last: Annotated[
        int | None, typer.Option(min=1, help="With --history: only the last so many batches.", show_default="all")
    ] = None,
    rows: Rows = 20,
    json: AsJson = False,
) -> int:
    """Show the state after a batch: keys, values, expiry, and the largest partitions and keys.

    It reads hard links to the checkpoint's files, in a process of its own: the stream runs on, and nothing of it is
    written. Any batch can be shown whose state the checkpoint still keeps
    (`spark.sql.streaming.minBatchesToRetain`).
    """
    from streamwarden.services.state import looking

    chosen = _selection(operator, variable, key)
    if history:
        if not key or batch is not None:
            raise ConfigError(
                "--history shows one key after each batch",
                expected="--key, and no --batch",
                where="the command line",
                next_step="name a key with --key, or leave --history out",
            )
        past = looking.history(workspace(context).query(stream), chosen, last=last)
        as_json(_as_data(past)) if json else _show_history(past)
        return Exit.OK
    look = looking.show(workspace(context).query(stream), chosen, batch=batch, rows=rows)
    as_json(_as_data(look)) if json else _show(look)
    return Exit.OK


@app.command()
def export(
    context: typer.Context,
    stream: Stream,
    to: Annotated[
        str, typer.Option(metavar="PATH", help="PATH.parquet: a folder of parquet files; PATH.csv: one file.")
    ],
    batch: Batch = None,
    key: Keys = None,
    operator: Operator = None,
    variable: Variable = None,
    json: AsJson = False,
) -> int:
    """Write the whole state after a batch to parquet or CSV, for its owner alone. An earlier export is replaced."""
    from streamwarden.services.state.exports import export_to, target_of

    spec = workspace(context).query(stream)
    target = target_of(to, spec)
    look = export_to(spec, _selection(operator, variable, key), target, batch=batch)
    if json:
        as_json({**_as_data(look), "to": target.path})
    else:
        say(f"{look.answer.rows:,} rows of {text(_where(look))} are in {text(target.path)}")
    return Exit.OK


@app.command()
def diff(
    context: typer.Context,
    stream: Stream,
    before: Annotated[int, typer.Option("--from", min=0, metavar="BATCH", help="The earlier batch.")],
    after: Annotated[
        int | None,
        typer.Option("--to", min=0, metavar="BATCH", help="The later batch.", show_default="the newest committed"),
    ] = None,
    key: Keys = None,
    operator: Operator = None,
    variable: Variable = None,
    rows: Rows = 20,
    json: AsJson = False,
) -> int:
    """Show what changed in the state between two batches: keys that appeared, vanished, changed, grew."""
    from streamwarden.services.state import looking

    spec = workspace(context).query(stream)
    look = looking.diff(spec, _selection(operator, variable, key), before=before, after=after, rows=rows)
    as_json(_as_data(look)) if json else _show_difference(look)
    return Exit.OK


def _selection(operator: int | None, variable: str | None, key: list[str] | None) -> Selection:
    from streamwarden.services.state.looking import Selection

    return Selection(operator=operator, variable=variable, keys=tuple(key or ()))


def _as_data(look: Look[Any]) -> dict[str, Any]:
    """A look as JSON: the answer's fields beside those of the look."""
    data: dict[str, Any] = plain(look)
    return {**data, **data.pop("answer")}


def _where(look: Look[Any]) -> str:
    """`user_sessions, operator 0 (…), open, after batch 12`."""
    first, last = look.batches[0], look.batches[-1]
    batches = f"after batch {last}" if first == last else f"after batches {first} to {last}"
    return f"{look.stream}, {look.table.words}, {batches}"


def _heading(look: Look[Any]) -> None:
    committed = "" if look.committed_at is None else f", committed {ago(look.committed_at, time.time())}"
    say(f"[bold]{text(_where(look))}[/]{committed}; the checkpoint keeps batches {versions_words(look.kept)}")


def _show(look: Look[Shown]) -> None:
    answer = look.answer
    _heading(look)
    table(
        ("partition", "key", "value", "expires"),
        [
            (
                str(entry.partition),
                key_words(entry.key, answer.fields),
                value_words(entry.value, entry.item),
                NONE if entry.expires_ms is None else moment_words(entry.expires_ms),
            )
            for entry in answer.entries
        ],
        empty="The state has no row.",
    )
    if answer.rows > len(answer.entries):
        say(f"The first {len(answer.entries):,} of {answer.rows:,} rows: --rows shows more, `state export` has all.")
    _shares("partition", answer.partitions, answer)
    _shares("key", answer.largest, answer)


def _shares(kind: str, shares: Sequence[Share], answer: Shown) -> None:
    if shares:
        rows = [share_cells(share, answer.fields) for share in shares[:_SHARES]]
        table((kind, "rows", "bytes of values"), rows, title=f"The largest {kind}s")
    if len(shares) > _SHARES:
        say(f"{len(shares)} {kind}s have rows.")


def _show_history(look: Look[History]) -> None:
    _heading(look)
    rows = []
    for stretch in stretches(look.answer.moments):
        moment = stretch.moment
        lines = [entry_words(entry) for entry in moment.entries] or ["[dim]no row[/]"]
        if moment.rows > len(moment.entries):
            lines.append(f"and {moment.rows - len(moment.entries):,} other rows")
        batches = str(stretch.first) if stretch.first == stretch.last else f"{stretch.first}-{stretch.last}"
        rows.append((batches, number(moment.rows), "\n".join(lines)))
    table(("after batch", "rows", "value"), rows)


def _show_difference(look: Look[Difference]) -> None:
    answer = look.answer
    _heading(look)
    say(
        f"keys: {answer.appeared:,} appeared, {answer.vanished:,} vanished, {answer.changed:,} changed "
        f"({answer.grew:,} grew, {answer.shrank:,} shrank), {answer.unchanged:,} are as they were; "
        f"rows: {growth_words(answer.rows_before, answer.rows_after)}"
    )
    if answer.growth:
        table(
            ("key", "rows", "bytes of values"),
            [
                (
                    key_words(change.key, answer.fields),
                    growth_words(change.rows_before, change.rows_after),
                    growth_words(change.bytes_before, change.bytes_after, bytes=True),
                )
                for change in answer.growth
            ],
            title="The keys that grew most",
        )
    table(
        ("key", "what", "before", "after"),
        [
            (
                key_words(change.key, answer.fields),
                what_happened(change),
                changed_words(change.before, change),
                changed_words(change.after, change),
            )
            for change in answer.sample
        ],
        title="What changed",
        empty="Nothing changed.",
    )
    different = answer.appeared + answer.vanished + answer.changed
    if different > len(answer.sample):
        say(f"The first {len(answer.sample):,} of {different:,} keys, by key: --rows shows more.")
