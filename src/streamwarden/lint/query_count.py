"""How many queries a script starts, counted while its text is followed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class QueryCount:
    """Counts starts as far as the text tells how often each is reached; `count` is None from where it does not."""

    def __init__(self) -> None:
        self.count: int | None = 0

    def add(self) -> None:
        """A query is started here."""
        if self.count is not None:
            self.count += 1

    def lose(self) -> None:
        """Code that is not in sight may start queries here."""
        self.count = None

    @contextmanager
    def repeated(self, times: int | None) -> Iterator[None]:
        """What is started inside is started `times` times; None: the text does not say how often."""
        before, self.count = self.count, 0
        yield
        inside = self.count
        if before is None or inside == 0:
            self.count = before
        else:
            self.count = None if times is None or inside is None else before + times * inside

    @contextmanager
    def branches(self, *, sure: bool) -> Iterator[Callable[[], None]]:
        """Either branch is taken; the function that is given marks the begin of the second.

        Args:
            sure: the first one is always taken.
        """
        before, self.count = self.count, 0
        first: list[int | None] = []

        def other() -> None:
            first.append(self.count)
            self.count = 0

        yield other
        one, two = first[0], self.count
        inside = one if sure or one == two else None
        self.count = None if before is None or inside is None else before + inside
