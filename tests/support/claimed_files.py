"""Several pytest processes share the files of one run: each claims a file, imports it, runs its tests, and goes on.

pytest-xdist has each worker import and collect all files before the first test runs, and sends each result to a third
process: for tests of a few milliseconds that is a sixth of all processor time. Plugins that split a suite, such as
pytest-split, choose among tests that each process has collected, too, by times that somebody has to record.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import pytest


class ClaimedFiles:
    """Runs the tests of the files that no other process with the same `folder` has claimed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: list[pytest.Module] = []
        self._runs = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> pytest.CollectReport | None:
        """The collection only finds the files; a file that is claimed is then collected as ever."""
        if self._runs or not isinstance(collector, pytest.Module):
            return None
        self._found.append(collector)
        return pytest.CollectReport(collector.nodeid, "passed", longrepr=None, result=[])

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._runs = True
        for item, following in pairwise(chain(self._items(session), (None,))):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail or session.shouldstop:
                raise session.Failed(session.shouldfail or session.shouldstop)
        return True

    def _items(self, session: pytest.Session) -> Iterator[pytest.Item]:
        """The tests of this process. The largest files come first, so that no process has a long one left alone."""
        for module in sorted(self._found, key=lambda found: -found.path.stat().st_size):
            if self._claim(module):
                gc.disable()  # an import makes many objects, all of which stay
                items = list(session.genitems(module))
                gc.freeze()
                gc.enable()
                session.config.hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
                session.testscollected += len(items)
                yield from items

    def _claim(self, module: pytest.Module) -> bool:
        """Whether this process is the first that wants this file."""
        try:
            (self._folder / module.nodeid.replace("/", "+")).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
