"""Stores for tests: opened as often as wanted, and migrated by many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from streamwarden.adapters.store import Store
from support.children import Line, children


@contextmanager
def opener(url: str) -> Iterator[Callable[..., Store]]:
    """Opens the store at `url`, as often as wanted; all are closed afterwards."""
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(Store(url, **options))


def migrate_at_once(url: str, processes: int) -> None:
    """Many processes find an empty place and migrate it; each can work with it afterwards."""

    def migrate(line: Line) -> None:
        line.say("ready")
        line.wait()
        with Store(url) as store:
            store.migrate()
            store.measurements.recent("flights", 0)
        line.say("migrated")

    with children(processes, migrate) as all_of_them:
        assert [child.hear() for child in all_of_them] == ["ready"] * processes
        for child in all_of_them:
            child.tell("go")
        assert [child.hear() for child in all_of_them] == ["migrated"] * processes
