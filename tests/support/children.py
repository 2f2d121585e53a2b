"""Real child processes for tests: forked, run in parallel, ended for certain."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

_FORK = multiprocessing.get_context("fork")
DEADLINE = 120.0


class Child:
    """A forked process that runs `work(pipe)`; what it returns (or how it failed) comes through the same pipe."""

    def __init__(self, work: Callable[[Connection], Any]) -> None:
        self.pipe, theirs = _FORK.Pipe()
        self.process = _FORK.Process(target=_run, args=(work, theirs, self.pipe), daemon=True)
        self.process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def hear(self) -> Any:
        """The next thing the child says; fails the test if it says nothing."""
        assert self.pipe.poll(DEADLINE), f"child {self.pid} says nothing"
        kind, said = self.pipe.recv()
        assert kind != "failed", said
        return said

    def tell(self, word: Any) -> None:
        self.pipe.send(word)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.join(DEADLINE)


class Line:
    """The child's end: `say` to the test, `wait` for its word."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def say(self, word: Any) -> None:
        self._pipe.send(("said", word))

    def wait(self) -> Any:
        return self._pipe.recv()


@contextmanager
def children(count: int, work: Callable[[Line], Any]) -> Iterator[list[Child]]:
    """`count` children that run `work`; all are gone afterwards."""
    started = [Child(lambda pipe: work(Line(pipe))) for _ in range(count)]
    try:
        yield started
    finally:
        for child in started:
            child.kill()


def _run(work: Callable[[Connection], Any], pipe: Connection, other_end: Connection) -> None:
    other_end.close()
    try:
        pipe.send(("said", work(pipe)))
    except BaseException:
        pipe.send(("failed", traceback.format_exc()))
