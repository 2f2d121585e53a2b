"""The demo's output: lines with the time since its start, and on a terminal a spinner while it waits."""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from rich.console import Console, RenderableType
from rich.markup import escape

from streamwarden.errors import StreamwardenError
from streamwarden.services.fleet.exits.log_tail import last_lines
from streamwarden.units import format_duration

TAIL_LINES: Final = 25


class DemoFailed(Exception):
    """The demo cannot continue. `logs`: (path, its last lines), to be shown."""

    def __init__(self, message: str, logs: Sequence[Path] = ()) -> None:
        super().__init__(message)
        self.logs = [(path, "".join(last_lines(path, TAIL_LINES))) for path in logs if path.is_file()]


class Updates(Protocol):
    """Shows the progress of what is waited for."""

    def __call__(self, text: str) -> None: ...


class Output:
    """Writes to stdout. In a pipe it writes plain lines and no spinner."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console = Console(highlight=False, width=160)
        self._started = time.monotonic()

    def line(self, text: str) -> None:
        """Print one line of Rich's markup."""
        elapsed = time.monotonic() - self._started
        since = format_duration(round(elapsed)) if elapsed >= 1 else "0 s"
        self.console.print(f"[dim]{since:>7}[/]  {text}", soft_wrap=True)

    def show(self, what: RenderableType) -> None:
        """Print a table or a panel."""
        self.console.print(what)

    def failure(self, error: DemoFailed | StreamwardenError) -> None:
        """Print the error, and the end of the log that explains it."""
        self.line(f"[bold red]{escape(str(error))}[/]")
        for path, tail in getattr(error, "logs", ()):
            self.console.print(f"[dim]--- the end of {escape(str(path))}[/]", soft_wrap=True)
            self.console.print(tail, markup=False, soft_wrap=True)

    @contextmanager
    def waiting(self, text: str) -> Iterator[Updates]:
        """On a terminal: a spinner with the newest text. Elsewhere nothing is shown."""
        if not self.console.is_terminal:
            yield lambda text: None
            return
        with self.console.status(escape(text)) as status:
            yield lambda text: status.update(escape(text))


def open_page(url: str) -> None:
    """Show the page to a person who sits at this machine's own screen; elsewhere a browser would be nobody's."""
    if sys.stdout.isatty() and (
        sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        webbrowser.open(url)
