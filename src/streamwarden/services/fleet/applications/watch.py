"""Watches on a thread of its own whether the application of a driver waits for its cluster, and measures how long.

Nothing waits for it, and a question that the manager does not answer costs one sample.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from streamwarden.clusters import manager_of
from streamwarden.clusters.waiting import Waiting
from streamwarden.errors import ProcessError, StreamwardenError
from streamwarden.health.signals.resources import EVERY, LONGEST, WAITED
from streamwarden.health.window import Measurement
from streamwarden.services.fleet.applications import Application
from streamwarden.stream.spec import StreamSpec

_OVER: Final = "nothing"
"""What it waits for no longer."""


class ResourceWatch:
    """Measures how long the application of a driver has waited for resources, while it waits, and once when it is over.

    Args:
        find: the application; None: there is none that can be asked. Raises ProcessError.
        measure: takes the measurements.
        say: takes what has to be known about the watch itself, once.
        once: the watch ends with the first answer that the application does not wait.
    """

    def __init__(
        self,
        spec: StreamSpec,
        find: Callable[[], Application | None],
        *,
        measure: Callable[[Iterable[Measurement]], None],
        say: Callable[[str], None],
        once: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._spec, self._find = spec, find
        self._measure, self._say, self._clock = measure, say, clock
        self._once = once
        self._closed = threading.Event()
        self._since: float | None = None

    def start(self) -> None:
        """Watch, unless there is no application that can be asked."""
        waits = manager_of(self._spec.spark.master).waits
        try:
            application = self._find() if waits is not None else None
        except ProcessError as error:
            self._say(f"nobody watches whether the application waits for resources: {error}")
            return
        if application is not None:
            arguments = (application, waits)
            threading.Thread(target=self._run, args=arguments, name="streamwarden resources", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _run(self, application: Application, waits: Callable[[Mapping[str, Any]], Waiting | None]) -> None:
        failing = False
        while not self._closed.wait(EVERY):
            try:
                description = application.describe()
                if description is None:  # not submitted yet, or the manager was restarted and reads its state
                    continue
                found = waits(description)
                self.note(found)
            except StreamwardenError as error:
                if not failing:
                    self._say(str(error))
                failing = True
                continue
            failing = False
            if found is None and self._once:
                return

    def note(self, found: Waiting | None) -> None:
        """Measure what one answer says: the time since the first of the answers that all said that it waits."""
        if found is None and self._since is None:
            return
        now = self._clock()
        self._since = now if self._since is None else self._since
        waited, words = (0.0, "") if found is None else (now - self._since, found.words[:LONGEST])
        sample = Measurement(
            stream=self._spec.name, name=WAITED, at=now, value=waited, unit="seconds", source=words or _OVER
        )
        self._measure([sample])
        if found is None:
            self._since = None
