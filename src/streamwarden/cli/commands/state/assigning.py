"""`state set`: gives a key of a stopped stream another value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.commands.state.deleting import require_reason
from streamwarden.cli.commands.state.showing import Operator, Stream
from streamwarden.cli.commands.state.showing_words import entry_words, key_words
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, text
from streamwarden.cli.session import AsJson, who, workspace
from streamwarden.units import format_count

if TYPE_CHECKING:
    from streamwarden.services.state.assigning import ValueChange
    from streamwarden.stream.spec import StreamSpec


def set_value(
    context: typer.Context,
    stream: Stream,
    key: Annotated[
        list[str],
        typer.Option(
            "--key",
            metavar="[FIELD=]VALUE",
            help="The key. FIELD may be left out if the key has one field; repeat it for each field of the key.",
        ),
    ],
    value: Annotated[
        list[str],
        typer.Option(
            "--value",
            metavar="[FIELD=]VALUE|JSON",
            help="Its new value: a JSON object with every field, as `state show` writes it, or one option for each "
            "field. FIELD may be left out if the value has one field.",
        ),
    ],
    variable: Annotated[
        str | None, typer.Option(help="A variable of transformWithState; needed if it has several.", show_default=False)
    ] = None,
    operator: Operator = None,
    reason: Annotated[str, typer.Option(help="Why; the stream's history says so. Needed unless --dry-run.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the old and the new value; change nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Set the value of one key in the state of a stopped stream: a value of transformWithState, the state of
    applyInPandasWithState, or an aggregation. An expiry stays as it is.

    Spark writes a copy of the state with the new value. The copy takes the checkpoint's place only if exactly this row
    differs, and Spark reads the new value from it. A savepoint is taken first. States of RocksDB only.
    """
    from streamwarden.lifecycle.surgery.assignment import Assignment
    from streamwarden.services.savepoints.describing import Author
    from streamwarden.services.state import assigning

    space = workspace(context)
    spec = space.query(stream)
    assignment = Assignment(keys=tuple(key), value=tuple(value))
    wanted = assigning.Setting(assignment=assignment, operator=operator, variable=variable)
    if dry_run:
        change = assigning.plan(spec, wanted)
        if json:
            as_json(change)
            return Exit.OK
        _show_change(spec, change)
        say("Nothing was changed.")
        return Exit.OK
    author = Author(by=who(), reason=require_reason(reason))
    done = assigning.assign(space.store, spec, wanted, author)
    if json:
        as_json(done)
        return Exit.OK
    made = done.exchanged.exchange
    if done.changed is not None:
        _show_change(spec, done.changed)
        say("The value is set; every other row is as it was")
    else:
        say(f"The setting that was interrupted is complete: {text(made.proof)}")
    say(f"  in the history: {text(made.subject)}")
    say(f"  previous checkpoint: {text(done.exchanged.aside or 'there was none')}")
    if done.savepoint is not None:
        say(f"  the way back: streamwarden savepoint restore {text(spec.name)} {text(done.savepoint.id)}")
    say(f"Next: streamwarden start {text(stream)}")
    return Exit.OK


def _show_change(spec: StreamSpec, change: ValueChange) -> None:
    found = change.assigned
    say(f"[bold]{text(f'{spec.name}, {change.table.words}, after batch {change.batch}')}[/]")
    say(f"  key: {key_words(found.after.key, found.fields)}")
    say(f"  old value: {'none' if found.before is None else entry_words(found.before)}")
    say(f"  new value: {entry_words(found.after)}")
    say(f"  {format_count(found.proven, 'stored value')} encoded again to the same bytes")
