"""Measures how long something has given no answer. One thread asks, since an answer may never come; the other one
measures the silence."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

from streamwarden.lifecycle.supervision.heartbeat import Silence
from streamwarden.spark.log import say
from streamwarden.units import Seconds

ASK_EVERY: Final = 2.0
LOOK_EVERY: Final = 0.25


class SilenceWatch(ABC):
    """A silence counts from the construction on.

    Args:
        bound: seconds of silence after which the driver has to end.
        clock: monotonic seconds.
    """

    watched: ClassVar[str]
    """Names the threads."""

    def __init__(self, *, bound: Seconds, clock: Callable[[], float]) -> None:
        self._bound = bound
        self._clock = clock
        self._answered = threading.Event()
        self._closed = threading.Event()
        self._silence = Silence(clock())

    def start(self) -> None:
        """Start both threads."""
        for name, work in ((self.watched, self._ask_on), (f"{self.watched} silence", self._look_on)):
            threading.Thread(target=work, name=f"streamwarden {name}", daemon=True).start()

    def close(self) -> None:
        """End both threads, the one that asks with its next answer."""
        self._closed.set()

    def ask(self) -> None:
        """Ask once, which may take for ever."""
        if self._answers():
            self._answered.set()

    def probe(self) -> None:
        """Measure the silence now, and act on it."""
        heard = self._answered.is_set()
        self._answered.clear()
        before, self._silence = self._silence.lasted, self._silence.at(self._clock(), heard=heard)
        self._act(before)

    @abstractmethod
    def _answers(self) -> bool:
        """Whether there was an answer; may never return."""

    @abstractmethod
    def _act(self, before: Seconds) -> None:
        """Act on the silence. `before`: how long it had lasted at the measurement before."""

    def _ask_on(self) -> None:
        while not self._closed.is_set():
            self.ask()
            self._closed.wait(ASK_EVERY)

    def _look_on(self) -> None:
        while not self._closed.wait(LOOK_EVERY):
            try:
                self.probe()
            except Exception as error:  # a defect must not end the watch
                say(f"{self.watched}: {type(error).__name__}: {error}")
