"""`repartition`: gives a stopped stream another number of partitions of its state."""

from __future__ import annotations

from typing import Annotated

import typer

from streamwarden.cli.commands.state.savepoints import Named
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, text
from streamwarden.cli.session import AsJson, who, workspace


def repartition(
    context: typer.Context,
    stream: Named,
    partitions: Annotated[int, typer.Option(min=1, max=100_000, help="How many partitions the state shall have.")],
    reason: Annotated[str, typer.Option(help="Why; the stream's history says so.", show_default="none")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Give the state of a stopped stream another number of partitions, which a checkpoint fixes at its first batch.

    A savepoint is taken. Spark rewrites the state of a copy, which is compared with the stream's, row by row and byte
    by byte, and then takes the place of its checkpoint; the previous one is kept. If the command is killed, run it
    again: it completes, or begins anew. State of RocksDB only.
    """
    from streamwarden.services.savepoints.describing import Author
    from streamwarden.services.state import repartitioning

    space = workspace(context)
    spec = space.query(stream)
    if dry_run:
        plan = repartitioning.planned(spec, partitions)
        if json:
            as_json(plan)
            return Exit.OK
        say(f"the state of {text(stream)} goes from {plan.before} to {plan.after} partitions, as of batch {plan.batch}")
        say(f"  batch {plan.batch + 1} is added to its checkpoint; it reads nothing and writes no row")
        return Exit.OK
    tell = (lambda _: None) if json else say
    done = repartitioning.repartition(space.store, spec, partitions, Author(by=who(), reason=reason), tell=tell)
    if json:
        as_json(done)
        return Exit.OK
    made = done.exchanged
    which = f"the repartition of {text(stream)}{', which was interrupted before,' if made.resumed else ''}"
    say(f"{which} is complete: {partitions} partitions, as of batch {made.exchange.batch}")
    say(f"  output: {text(made.output)}")
    say(f"  previous checkpoint: {text(made.aside or 'there was none')}")
    if done.savepoint is not None:
        say(f"  savepoint: {text(done.savepoint.id)}")
    if spec.state.shuffle_partitions != partitions:
        say(f"  next: set `state.shuffle_partitions: {partitions}` in {text(spec.file or stream)}, for a checkpoint")
        say("        that begins anew; the present one keeps its own number, whatever the file says")
    say(f"  next: streamwarden start {text(stream)}")
    return Exit.OK
