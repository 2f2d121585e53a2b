"""Reports how a driver ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import say, text
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.units import format_duration

if TYPE_CHECKING:
    from streamwarden.services.fleet.exits.exit_recorder import Observation


def report_exit(seen: Observation) -> int:
    """Print how a driver ended, and after how long. Exit code 1 unless it ended in good order."""
    ended, record = seen.exit, seen.record
    if ended is None:
        say(f"{text(record.stream)}: [red]the driver ended and left no record[/]")
        return Exit.BAD
    good = ended.kind in (ExitKind.STOPPED, ExitKind.COMPLETED)
    colour = "green" if good else "bold red"
    cut = "; the batch that was running will run again" if ended.cut_batch else ""
    after = format_duration(max(0.0, ended.ended_at - record.launched_at))
    say(f"{text(record.stream)}: ended after {after}: [{colour}]{text(describe(ended))}[/]{cut}")
    if ended.next_step and not good:
        say(f"  next: {text(ended.next_step)}")
    if not good:
        say(f"  log: {text(Path(record.folder) / 'driver.log')}")
    return Exit.OK if good else Exit.BAD
