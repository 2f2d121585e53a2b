"""`state delete` and `state compact`: rewrite the state of a stopped stream."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.commands.state.showing import Operator, Stream
from streamwarden.cli.commands.state.showing_words import key_words
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import number
from streamwarden.cli.output import as_json, say, table, text
from streamwarden.cli.session import AsJson, who, workspace
from streamwarden.errors import ConfigError
from streamwarden.units import format_count

if TYPE_CHECKING:
    from streamwarden.lifecycle.surgery.rewriting import Keys
    from streamwarden.services.state.deleting import Counted, Deleted
    from streamwarden.stream.spec import StreamSpec


def delete(
    context: typer.Context,
    stream: Stream,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="[FIELD=]VALUE",
            help="Delete this key. FIELD may be left out if the key has one field; repeat it for several fields.",
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Delete the keys for which this holds: Spark's SQL over `key.FIELD`."),
    ] = None,
    operator: Operator = None,
    reason: Annotated[str, typer.Option(help="Why; the stream's history says so. Needed unless --dry-run.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be deleted; change nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Delete keys from the state of a stopped stream, with all that the operator keeps of them: values, timers, both
    sides of a join, indexes. A deleted key begins anew when it comes again.

    Spark writes a copy of the state without the keys. The copy takes the checkpoint's place only if it has exactly the
    other keys, byte for byte. A savepoint is taken first. States of RocksDB only.
    """
    from streamwarden.services.savepoints.describing import Author
    from streamwarden.services.state import deleting

    space = workspace(context)
    spec = space.query(stream)
    wanted = deleting.Deletion(keys=_keys(key, where), operator=operator)
    if dry_run:
        counted = deleting.count(spec, wanted)
        as_json(counted) if json else _show_plan(spec, counted)
        return Exit.OK
    done = deleting.delete(space.store, spec, wanted, Author(by=who(), reason=require_reason(reason)))
    savepoints, checkpoints = deleting.copies(spec)
    if json:
        as_json({"deleted": done, "savepoints": savepoints, "previous_checkpoints": checkpoints})
        return Exit.OK
    _show_done(spec, done)
    say("These copies may still have the key. Delete them when you need no way back:")
    for savepoint in savepoints:
        say(f"  streamwarden savepoint delete {text(stream)} {text(savepoint)}")
    for checkpoint in checkpoints:
        say(f"  rm -r {text(shlex.quote(str(checkpoint)))}")
    say(f"Next: streamwarden start {text(stream)}")
    return Exit.OK


def compact(
    context: typer.Context,
    stream: Stream,
    reason: Annotated[str, typer.Option(help="Why; the stream's history says so.", show_default="none")] = "",
    json: AsJson = False,
) -> int:
    """Write the state of a stopped stream as one snapshot in each partition, so that its next start replays nothing.

    The content is compared byte for byte before the new state takes the place of the old one, which is kept with the
    previous checkpoint. States of RocksDB only.
    """
    from streamwarden.services.savepoints.describing import Author
    from streamwarden.services.state import compacting

    space = workspace(context)
    done = compacting.compact(space.store, space.query(stream), Author(by=who(), reason=reason))
    if json:
        as_json(done)
        return Exit.OK
    before = "" if done.before is None else f", before {done.before}"
    say(f"The state of {text(stream)} has {done.after}{before}; its content is as it was")
    say(f"  previous checkpoint: {text(done.exchanged.aside or 'there was none')}")
    say(f"Next: streamwarden start {text(stream)}")
    return Exit.OK


def _keys(key: list[str] | None, where: str | None) -> Keys:
    from streamwarden.lifecycle.surgery.rewriting import Keys

    if bool(key) == (where is not None):
        raise ConfigError(
            "both --key and --where are given" if key else "no key is named",
            expected="--key or --where",
            where="the command line",
            next_step="name one key with --key, or all keys for which a condition holds with --where",
        )
    return Keys(fields=tuple(key or ()), where=where)


def require_reason(given: str) -> str:
    """The reason that was given. Raises ConfigError if there is none."""
    if given.strip():
        return given
    raise ConfigError(
        "no reason is given",
        expected="--reason with a text, such as a ticket",
        where="the command line",
        next_step="say why the state is changed, or look at what would be changed with --dry-run",
    )


def _show_plan(spec: StreamSpec, counted: Counted) -> None:
    found = counted.found
    say(f"[bold]{_where(spec, counted)}[/]: {_amount(counted)} would be deleted")
    table(
        ("store", "part", "keys", "rows"),
        [(text(part.store), text(part.family), number(part.keys), number(part.rows)) for part in found.parts],
    )
    for key in found.sample:
        say(f"  {key_words(key, found.fields)}")
    if found.keys > len(found.sample):
        say(f"The first {len(found.sample)} of {found.keys:,} keys.")
    say("Nothing was changed.")


def _show_done(spec: StreamSpec, done: Deleted) -> None:
    made = done.exchanged.exchange
    if done.changed is not None:
        say(f"{_where(spec, done.changed)}: deleted {_amount(done.changed)}; every other row is as it was")
    else:
        say(f"The deletion that was interrupted is complete: {text(made.proof)}")
    say(f"  in the history: {text(made.subject)}")
    say(f"  previous checkpoint: {text(done.exchanged.aside or 'there was none')}")
    if done.savepoint is not None:
        say(f"  the way back: streamwarden savepoint restore {text(spec.name)} {text(done.savepoint.id)}")


def _where(spec: StreamSpec, counted: Counted) -> str:
    operator = counted.operator
    return text(f"{spec.name}, operator {operator.operator} ({operator.name}), after batch {counted.batch}")


def _amount(counted: Counted) -> str:
    return f"{format_count(counted.found.keys, 'key')} with {format_count(counted.found.rows, 'row')}"
