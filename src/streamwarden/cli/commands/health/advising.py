"""`advise`: settings for a stream, computed from its own history."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, table, text
from streamwarden.cli.session import AsJson, StreamName, workspace
from streamwarden.tuning.recommendation import Decision, Number, Recommendation
from streamwarden.units import format_count, format_duration, format_size

if TYPE_CHECKING:
    from streamwarden.tuning.history import History

_COLOURS = {Decision.KEEP: "green", Decision.CHANGE: "yellow", Decision.UNKNOWN: "dim"}


def advise(context: typer.Context, stream: StreamName, json: AsJson = False) -> int:
    """Advise on state size, checkpoint interval, partitions, memory, trigger and capacity, from a stream's history.

    Each piece of advice shows its numbers and where each was measured; docs/how-to/tuning.md explains them.
    Exit code 4 if there is too little history for any advice.
    """
    from streamwarden.services.analysis.tuning import gather
    from streamwarden.tuning.advisor import advise as pieces_of

    space = workspace(context)
    spec = space.query(stream)
    history = gather(spec, space.store, space.drills().values(), time.time(), space.thresholds())
    pieces = pieces_of(history)
    if json:
        as_json({"stream": stream, "batches": len(history.batches), "advice": pieces, "not_read": history.problems})
    else:
        _show(stream, history, pieces)
    return Exit.UNDECIDED if all(piece.status is Decision.UNKNOWN for piece in pieces) else Exit.OK


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
