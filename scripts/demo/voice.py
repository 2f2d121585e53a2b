"""What the demo says while it works: lines with the time since its start, and on a terminal what it waits for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ground import DemoFailed
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.status import Status

from streamwarden.errors import StreamwardenError
from streamwarden.units import format_duration


class Updates(Protocol):
    """Takes the newest word on something that is waited for."""

    def __call__(self, text: str) -> None: ...


class Voice:
    """Speaks to stdout. In a pipe it writes plain lines and no spinner."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console = Console(highlight=False, width=160)
        self._started = time.monotonic()
        self._status: Status | None = None

    def say(self, text: str) -> None:
        """One line; Rich's markup counts."""
        since = format_duration(round(time.monotonic() - self._started)) if self._elapsed() >= 1 else "0 s"
        self.console.print(f"[dim]{since:>7}[/]  {text}", soft_wrap=True)

    def show(self, what: RenderableType) -> None:
        """A table or a panel."""
        self.console.print(what)

    def failure(self, error: DemoFailed | StreamwardenError) -> None:
        """The error, and the end of the log that explains it."""
        self.say(f"[bold red]{escape(str(error))}[/]")
        for path, tail in getattr(error, "logs", ()):
            self.console.print(f"[dim]--- the end of {escape(str(path))}[/]", soft_wrap=True)
            self.console.print(tail, markup=False, soft_wrap=True)

    @contextmanager
    def waiting(self, text: str) -> Iterator[Updates]:
        """A spinner with the newest word, on a terminal; nothing elsewhere."""
        if not self.console.is_terminal:
            yield lambda text: None
            return
        with self.console.status(escape(text)) as status:
            yield lambda text: status.update(escape(text))

    def elapsed(self) -> str:
        """Time since the start, for people."""
        return format_duration(self._elapsed())

    def _elapsed(self) -> float:
        return time.monotonic() - self._started
