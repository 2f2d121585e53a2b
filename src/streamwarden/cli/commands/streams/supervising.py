"""`start --supervise`: keeps one stream running in the foreground, by the same policy as its DAG."""

import time
from functools import partial

from streamwarden.adapters import processes
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import say, text
from streamwarden.lifecycle.driver import ExitKind, ProcessIdentity
from streamwarden.lifecycle.supervision import supervisor
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.services.fleet.exits.log_tail import LogTail
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.workspace import Workspace
from streamwarden.units import format_duration


def supervise_here(space: Workspace, stream: str, *, launched_by: str) -> int:
    """Run the supervisor until the stream finished (0) or stays down (1). Ctrl-C leaves the driver running."""
    narrator = _SupervisionNarrator(space.fleet)
    try:
        end = supervisor.supervise(
            partial(space.stream, stream),
            launcher=space.fleet,
            drivers=space.store.drivers,
            stops=space.store.stops,
            launched_by=launched_by,
            clock=time.time,
            sleep=narrator.sleep,
            announce=narrator.announce,
        )
    except KeyboardInterrupt:
        say(f"\nno longer supervised; the driver continues. Stop it with: streamwarden stop {text(stream)}")
        raise
    narrator.drain()
    if isinstance(end, supervisor.Finished):
        return Exit.OK if end.exit.kind in (ExitKind.COMPLETED, ExitKind.STOPPED) else Exit.BAD
    return Exit.BAD


class _SupervisionNarrator:
    """Prints the supervisor's moves, and shows the log of the driver that is watched while the supervisor waits."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._log: LogTail | None = None
        self._process: ProcessIdentity | None = None

    def announce(self, move: supervisor.Move | supervisor.Blind | supervisor.Elsewhere) -> None:
        self.drain()
        match move:
            case supervisor.Watch(driver_id=driver):
                path = self._fleet.log_path(driver)
                say(f"[bold]watching driver {text(driver)}[/], log {text(path)}")
                self._log = LogTail(path)
                self._process = self._fleet.observe(driver).record.process
            case supervisor.Launch(reason=reason):
                say(f"[bold]launching[/]: {text(reason)}")
            case supervisor.Wait(until=until, reason=reason, attempt=attempt):
                wait = format_duration(max(0.0, until - time.time()))
                say(f"[yellow]restart {attempt} in {wait}[/]: {text(reason)}")
            case supervisor.Elsewhere(reason=reason):
                say(f"[yellow]waiting for another host[/]: {text(reason)}")
            case supervisor.Blind(reason=reason):
                say(f"[yellow]waiting for the store[/], a living driver continues: {text(reason)}")
            case supervisor.Hold(state=state):
                say(f"[yellow]held[/]: stopped by {text(state.changed_by)} ({text(state.reason)}); waiting for a start")
            case supervisor.Down(verdict=verdict):
                say(f"[bold red]down[/]: {text(verdict.reason)}\n  next: {text(verdict.next_step)}")
            case supervisor.Finished(exit=ended):
                say(f"[green]finished[/]: {text(describe(ended))}")

    def sleep(self, seconds: float) -> None:
        """Sleep, but not beyond the end of the driver that is watched."""
        self.drain(final=False)
        if self._process is None:
            time.sleep(seconds)
        elif processes.await_end(self._process, seconds):
            self._process = None  # from now on every sleep is a whole one, even if the end cannot be recorded

    def drain(self, *, final: bool = True) -> None:
        """Show what was added to the log; with `final` also an unfinished last line."""
        if self._log is not None:
            for line in self._log.read_all(final=final):
                print(line, flush=True)
