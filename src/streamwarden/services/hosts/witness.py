"""Answers, for this host, what a driver of another host asks whose storage is silent: whether it is read here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.processes import this_host
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import METADATA
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle.hosts.elsewhere import ASKED, answer
from streamwarden.lifecycle.hosts.report import host_name

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.lifecycle.driver import DriverEvent

LOOK_EVERY: Final = 2.0

_ANSWERED_WITHIN: Final = 60.0
"""Seconds for which a question is worth an answer: its driver ends by itself after that."""


class Witness:
    """Looks for questions on a thread of its own: the storage that is asked about may be silent on this host, too."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._host = host_name(this_host())
        self._answered: set[tuple[str, float]] = set()

    def start(self, stop: threading.Event) -> None:
        """Look until `stop` is set."""
        threading.Thread(target=self._run, args=(stop,), name="streamwarden witness", daemon=True).start()

    def look(self) -> None:
        """Answer each question of other hosts once, as soon as the storage is read here. Raises StoreError."""
        now = self._clock() + self._store.leases.clock_offset()
        others = {
            driver.driver_id
            for driver in self._store.drivers.unfinished()
            if driver.process is not None and host_name(driver.process.host) != self._host
        }
        for asked in self._store.drivers.events_since(others, ASKED, now - _ANSWERED_WITHIN):
            if (asked.driver_id, asked.at) not in self._answered and _reads(asked):
                self._answered.add((asked.driver_id, asked.at))
                self._store.drivers.event(answer(asked, self._host, now))

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_EVERY):
            try:
                self.look()
            except StreamwardenError:  # the store does not answer, which the reports of this host say
                continue


def _reads(asked: DriverEvent) -> bool:
    """Whether this host reads the checkpoint that the driver had read: not another one at the same path."""
    detail = asked.detail
    try:
        found = (open_path(detail["checkpoint"], detail["connection"] or None) / METADATA).read()
    except (OSError, StreamwardenError):
        return False
    return found.decode(errors="replace") == detail["metadata"]
