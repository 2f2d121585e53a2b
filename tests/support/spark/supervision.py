"""A stream under supervision, as `streamwarden start --supervise` runs it, for as long as a test wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamwarden.lifecycle.supervision.supervisor import supervise
from streamwarden.stream.spec import StreamSpec
from support.spark.drivers import Project


class Ended(Exception):
    """Ends the supervisor's loop."""


@contextmanager
def supervised(home: Project, spec: StreamSpec) -> Iterator[None]:
    """Supervise the stream in a thread. The drivers go on when it ends."""
    ended = threading.Event()

    def sleep(seconds: float) -> None:
        if ended.wait(seconds):
            raise Ended

    def keep_running() -> None:
        with pytest.raises(Ended):
            supervise(
                lambda: spec,
                launcher=home.fleet,
                drivers=home.store.drivers,
                stops=home.store.stops,
                launched_by="test",
                clock=time.time,
                sleep=sleep,
                announce=lambda move: None,
            )

    thread = threading.Thread(target=keep_running, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)
