"""`audit`: balances the books of a stream, running or stopped."""

import time
from collections.abc import Mapping
from typing import Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, table, text
from streamwarden.cli.session import AsJson, StreamName, who, workspace
from streamwarden.verification.comparing.balance import GROUPS, Amount, Audit

_SIDES = {
    "opening": "state before",
    "input": "input",
    "dropped": "dropped as late",
    "output": "output",
    "closing": "state after",
}


def audit(
    context: typer.Context,
    stream: StreamName,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Audit at most this many batches.", show_default="all that are kept")
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=1,
            help="The part of the time in which the reading runs; 1 is the fastest, and slows the stream.",
            show_default="audit.share of the stream's file",
        ),
    ] = None,
    settle: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Resolve the open incident of earlier audits instead of auditing."),
    ] = None,
    json: AsJson = False,
) -> int:
    """Balance the books of a stream while it runs: input = output + state + dropped as late, to the row.

    Reads the input, the output and the state of the committed batches in a process of low priority, which is
    paused most of the time, so that the stream is not slowed (`--share`). It changes nothing of the stream. Books that
    do not balance are an incident of the stream: an audit that covers the same batches and balances resolves it, or
    `--settle`. Exit code 1 if the books do not balance, 4 if they cannot be balanced.
    """
    from streamwarden.services.auditing.auditing import audit as run
    from streamwarden.services.auditing.records import record
    from streamwarden.services.auditing.records import settle as resolve
    from streamwarden.verification.comparing.balance import Outcome

    space = workspace(context)
    if settle is not None:
        ended = resolve(space.store, space.query(stream).name, f"{who()}: {settle}", time.time())
        say(
            f"the incident of {text(stream)} is resolved"
            if ended
            else f"{text(stream)} has no open incident of an audit"
        )
        return Exit.OK
    spec = space.query(stream)
    share = share or spec.audit.share
    if share < 1 and not json:
        say(f"[dim]reads for {share:.0%} of the time, so that the stream is not slowed; --share 1 hurries[/]")
    result = run(spec, last=batches, share=share)
    evidence = record(result, space.data, space.store, time.time())
    if json:
        as_json({**result.to_dict(), "evidence": str(evidence)})
    else:
        _show(result)
        say(f"[bold]evidence:[/] {text(evidence)}")
    return {Outcome.BALANCED: Exit.OK, Outcome.UNBALANCED: Exit.BAD}.get(result.outcome, Exit.UNDECIDED)


def _show(audit: Audit) -> None:
    colour = {"balanced": "green", "not balanced": "bold red"}.get(audit.outcome.value, "yellow")
    say(f"[{colour}]{text(audit.outcome.value)}[/]: {text(audit.sentence)}")
    if audit.totals:
        columns = list(audit.amounts)
        table(
            (audit.operator, *columns),
            [
                (name, *(text(_number(audit.totals[side], column)) for column in columns))
                for side, name in _SIDES.items()
                if side in audit.totals
            ],
        )
    for said in (*audit.problems, *audit.notes):
        say(f"  {text(said)}")
    for entry in audit.worst:
        say(f"  {text(entry)}")
    if audit.unbalanced > len(audit.worst):
        say(f"  and {audit.unbalanced - len(audit.worst):,} other groups")


def _number(totals: Mapping[str, Amount | None], column: str) -> str:
    """A sum over no row is shown as 0. One over rows whose values are all NULL is not."""
    value = totals.get(column)
    if value is None:
        return "NULL" if totals.get(GROUPS) else "0"
    return f"{value:,}"
