"""Notices that the mounted storage of the driver's checkpoint hangs: then the driver can commit nothing.

A server of files that is cut off makes every call wait, for hours if need be. Nothing fails then, and the driver would
renew its lease while it does nothing, so that no other host could take the stream over.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from streamwarden.adapters.storage.files import LocalFiles, open_path
from streamwarden.errors import StreamwardenError

ASK_EVERY: Final = 5.0
"""Seconds between two questions."""


class StorageWatch:
    """Asks in a thread of its own, which may wait for ever. An object store is not asked: its clients have time limits.

    Args:
        bound: seconds without an answer after which the storage counts as hanging.
        clock: monotonic seconds.
    """

    def __init__(self, checkpoint: str, *, bound: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._checkpoint = checkpoint
        self._bound = bound
        self._clock = clock
        self._asked_at: float | None = None
        self._closed = threading.Event()

    @property
    def answers(self) -> bool:
        """Whether no question waits for longer than the bound."""
        asked_at = self._asked_at
        return asked_at is None or self._clock() - asked_at < self._bound

    def start(self) -> None:
        threading.Thread(target=self._run, name="streamwarden storage", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def ask(self) -> None:
        """Wait for an answer. An error is one: the batch fails of it, too."""
        with contextlib.suppress(OSError, StreamwardenError):
            place = open_path(self._checkpoint)
            if isinstance(place.fs, LocalFiles):
                self._asked_at = self._clock()
                place.stat()
        self._asked_at = None

    def _run(self) -> None:
        while not self._closed.wait(ASK_EVERY):
            self.ask()
