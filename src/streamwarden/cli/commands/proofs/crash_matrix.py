"""`crash-matrix`: restart a copy of a stream from every state that a crash can leave, and verify each output."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, plain, say, table, text
from streamwarden.cli.session import AsJson, StreamName, duration, workspace
from streamwarden.drills.crash_states import Outcome
from streamwarden.services.crash_matrix.crash_layout import AROUND, BATCHES

if TYPE_CHECKING:
    from streamwarden.services.crash_matrix.matrix import Matrix

_AROUND = ",".join(map(str, AROUND))

_COLOURS = {"right": "green", "refused": "yellow", "different": "bold red"}


def crash_matrix(
    context: typer.Context,
    stream: StreamName,
    around: Annotated[str, typer.Option(metavar="BATCHES", help="Batches around which the states lie.")] = _AROUND,
    within: Annotated[str, typer.Option(metavar="DURATION", help="Longest time of the restarts.")] = "30m",
    again: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Use the record in FOLDER, which an earlier run kept.")
    ] = None,
    state: Annotated[int | None, typer.Option(metavar="NUMBER", help="Restart from this state alone.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the record, even if each state ended well.")] = False,
    json: AsJson = False,
) -> int:
    """Restart a copy of a stream from every state of its files that a crash can leave, and verify each output.

    It records the order in which a run without a crash writes its files. The states are the prefixes of that record,
    and, reported apart, what only broken storage leaves. Each restart has to end with the right output or with an
    error. The exit code is 1 if one ended with another output that nothing reported.
    """
    from streamwarden.drills.runs import new_run_id
    from streamwarden.services.crash_matrix import matrix as matrices

    space, limit = workspace(context), duration(within, "--within")
    spec, batches = space.stream(stream), _batches(around)
    if again is not None:
        recorded = matrices.load(again)
    else:
        into = space.data / "crash_matrix" / new_run_id(stream, time.time())
        into.mkdir(parents=True)
        recorded = matrices.record(spec, into=into, around=batches, within=limit)
    chosen = [candidate for candidate in recorded.states if state in (None, candidate.number)]
    if not chosen:
        raise typer.BadParameter(f"the record has the states 0 to {len(recorded.states) - 1}", param_hint="--state")
    matrix = matrices.restart(recorded, chosen, within=limit)
    kept = keep or again is not None or bool(matrix.findings)
    if not kept:
        matrices.discard(recorded)
    if json:
        as_json({**plain(matrix), "findings": [outcome.state.number for outcome in matrix.findings]})
    else:
        _show(matrix, stream, kept=kept)
    return Exit.BAD if matrix.findings else Exit.OK


def _batches(given: str) -> list[int]:
    try:
        batches = [int(part) for part in given.split(",")]
    except ValueError:
        batches = []
    if not batches or min(batches) < 0 or max(batches) > BATCHES - 2:
        raise typer.BadParameter(f"expected batches from 0 to {BATCHES - 2}, such as {_AROUND}", param_hint="--around")
    return batches


def _show(matrix: Matrix, stream: str, *, kept: bool) -> None:
    from streamwarden.drills.crash_states import Ending, Origin, counted

    counts = counted(matrix.outcomes)
    table(
        ("left by", *(f"ended {ending.value}" for ending in Ending)),
        [(origin.value, *(str(counts[origin][ending]) for ending in Ending)) for origin in Origin],
        title=f"{len(matrix.outcomes)} states of {text(stream)}, from {matrix.operations} changes of files",
    )
    _list("Another output, and nothing reported it", matrix.findings)
    _list("An error", [outcome for outcome in matrix.outcomes if outcome.ending is Ending.REFUSED])
    if kept:
        say(f"The record is in {text(matrix.folder)}. To restart from one of its states again:")
        say(f"  streamwarden crash-matrix {text(stream)} --again {text(matrix.folder)} --state NUMBER")


def _list(title: str, outcomes: Sequence[Outcome]) -> None:
    if outcomes:
        table(
            ("state", "left by", "files", "result"),
            [
                (
                    str(outcome.state.number),
                    outcome.state.origin.value,
                    text(outcome.state.name),
                    f"[{_COLOURS[outcome.ending]}]{outcome.ending.value}[/]: {text(_brief(outcome.detail))}",
                )
                for outcome in outcomes
            ],
            title=title,
        )


def _brief(detail: str) -> str:
    """The first two hundred characters: Spark's texts repeat the plan of the query."""
    return detail if len(detail) <= 200 else f"{detail[:200]}…"
