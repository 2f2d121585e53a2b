"""`advise`: settings for a stream, computed from its own history, tried on forks and written into its file."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, table, text
from streamwarden.cli.session import AsJson, StreamName, workspace
from streamwarden.tuning.recommendation import Decision, Number, Recommendation
from streamwarden.units import format_count, format_duration, format_size

if TYPE_CHECKING:
    from pathlib import Path

    from streamwarden.services.autotuning.applying import Outcome
    from streamwarden.services.autotuning.proposing import Advised
    from streamwarden.tuning.history import History
    from streamwarden.tuning.proposals.changes import Change
    from streamwarden.tuning.proposals.trial import Trial

_COLOURS = {Decision.KEEP: "green", Decision.CHANGE: "yellow", Decision.UNKNOWN: "dim"}


def advise(
    context: typer.Context,
    stream: StreamName,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="Show the changes of the stream's file, try them on forks over the newest batches, and write them if "
            "the trial shows a gain.",
        ),
    ] = False,
    attempt: Annotated[bool, typer.Option("--try", help="As --apply, and write nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Advise on state size, checkpoint interval, partitions, memory, trigger and capacity, from a stream's history.

    Each piece of advice shows its numbers and where each was measured, and the changes of the stream's file that it
    asks for; docs/how-to/tuning.md explains them. With --apply, two twins execute the newest batches with the present
    settings and two with the advised ones. The settings are written if the output is the same and the trial shows a
    gain. They are in force when the stream is started next. Partitions are changed by `repartition` alone.

    Exit code 4 if there is too little history for any advice; 1 if the trial refuses the settings.
    """
    from streamwarden.services.analysis.tuning import gather
    from streamwarden.services.autotuning.proposing import propose_settings
    from streamwarden.tuning.advisor import advise as pieces_of

    space = workspace(context)
    spec = space.query(stream)
    history = gather(spec, space.store, space.drills().values(), time.time(), space.thresholds())
    pieces = pieces_of(history)
    advised = propose_settings(history, pieces, space.thresholds())
    if not json:
        _show(stream, history, pieces)
        _show_changes(advised)
    outcome = _tried(advised, apply, json) if apply or attempt else None
    if json:
        as_json(_document(stream, history, pieces, advised, outcome))
    elif outcome is not None:
        _show_outcome(stream, outcome, apply)
    elif apply or attempt:
        say(f"nothing was tried or written: {_why_not(pieces, advised)}")
    return Exit.UNDECIDED if _is_undecided(pieces) else Exit.OK


def _is_undecided(pieces: tuple[Recommendation, ...]) -> bool:
    return all(piece.status is Decision.UNKNOWN for piece in pieces)


def _why_not(pieces: tuple[Recommendation, ...], advised: Advised) -> str:
    if _is_undecided(pieces):
        return "there is too little history for any advice"
    return "no change can be tried here" if advised.changes else "no change is advised"


def _tried(advised: Advised, write: bool, json: bool) -> Outcome | None:
    """The trial at its end; None: nothing can be tried."""
    from streamwarden.services.autotuning.applying import carry_out

    if advised.proposal is None:
        return None
    return carry_out(advised, write=write, show=(lambda trial, folder: None) if json else _show_trial)


def _document(
    stream: str,
    history: History,
    pieces: tuple[Recommendation, ...],
    advised: Advised,
    outcome: Outcome | None,
) -> dict[str, object]:
    from streamwarden.tuning.proposals.trial import as_document

    document: dict[str, object] = {
        "stream": stream,
        "batches": len(history.batches),
        "advice": pieces,
        "not_read": history.problems,
        "changes": [{"setting": change.setting, **_plain(change)} for change in advised.changes],
        "diff": advised.diff,
    }
    if outcome is not None:
        verdict = {"gain": outcome.verdict.gain, "why": outcome.verdict.why, "written": outcome.written}
        document["trial"] = {**as_document(outcome.trial), **verdict, "folder": str(outcome.folder)}
    return document


def _plain(change: Change) -> dict[str, object]:
    return {
        "topic": change.topic,
        "before": change.before,
        "after": change.after,
        "why": change.why,
        "costs": change.costs,
        "cures": change.cures,
        "how": change.how.value,
        "next_step": change.next_step,
    }


def _show_changes(advised: Advised) -> None:
    if not advised.changes:
        return
    rows = [
        (
            text(change.setting),
            text(change.before or "not set"),
            text(change.after),
            "not known" if change.costs is None else f"{change.costs:.0f} %",
            text(change.how) + (f"\n{text(change.next_step)}" if change.next_step else ""),
        )
        for change in advised.changes
    ]
    table(("setting", "now", "advised", "costs", "how it is changed"), rows, title="What the advice would change")
    for line in advised.diff.splitlines():
        say(f"[{'green' if line.startswith('+') else 'red' if line.startswith('-') else 'dim'}]{text(line)}[/]")


def _show_trial(trial: Trial, folder: Path) -> None:
    from streamwarden.tuning.proposals.trial import report

    first, last = trial.batches
    title = f"The batches {first} to {last} in {format_count(len(trial.pairs), 'pair')}, each side twice"
    table(("", "now", "advised"), list(report(trial)), title=title)
    say(f"  logs and figures: {text(folder)}")


def _show_outcome(stream: str, outcome: Outcome, apply: bool) -> None:
    if outcome.written:
        say(f"[green]written[/]: {text(outcome.verdict.why)}")
        say(f"  it is in force when the stream is started next: `streamwarden restart {text(stream)}`")
    elif outcome.verdict.gain and not apply:
        say(f"a gain: {text(outcome.verdict.why)}; nothing was written, `--apply` writes it")
    else:
        say(f"no gain, nothing was written: {text(outcome.verdict.why)}")


def _show(stream: str, history: History, pieces: tuple[Recommendation, ...]) -> None:
    rows = [
        (
            text(piece.topic),
            f"[{_COLOURS[piece.status]}]{piece.status}[/]",
            text(piece.says)
            + "".join(f"\n[bold]{text(key)}: {text(value)}[/]" for key, value in piece.settings.items()),
        )
        for piece in pieces
    ]
    count = format_count(len(history.batches), "batch")
    table(("about", "advice", "why"), rows, title=f"{stream}: from its newest {count}")
    numbers = [
        (text(piece.topic), text(number.name), _value(number), text(number.source))
        for piece in pieces
        for number in piece.numbers
    ]
    table(("about", "number", "value", "from"), numbers, empty="No number has been measured yet.")
    for problem in history.problems:
        say(f"  [yellow]not read:[/] {text(problem)}")


def _value(number: Number) -> str:
    if math.isinf(number.value):
        return "none is too many" if number.unit == "batches" else "none is enough"
    match number.unit:
        case "bytes":
            return format_size(number.value)
        case "seconds" if abs(number.value) >= 0.001:
            return format_duration(number.value) if number.value >= 0 else f"-{format_duration(-number.value)}"
        case "seconds":
            return f"{number.value * 1e6:.3g} us"
        case "rows":
            return f"{number.value:,.0f}"
        case "%":
            return f"{number.value:+.1f} %"
        case unit:
            return f"{number.value:.3g} {unit}".strip()
