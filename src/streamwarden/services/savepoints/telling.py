"""Tells whoever waits for a savepoint how far the work is: what is counted, how much of it is done, and of how much."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Tell = Callable[[str, int, int], None]

_Item = TypeVar("_Item")


def silent(what: str, done: int, of: int) -> None:
    """Tells nobody."""


def counted(
    items: Iterable[_Item], what: str, of: int, tell: Tell, size: Callable[[_Item], int] = lambda _: 1, *, done: int = 0
) -> Iterator[_Item]:
    """The items; after each the caller asks for the next one, and then it is done. `done`: what was done before."""
    for item in items:
        yield item
        done += size(item)
        tell(what, done, of)
