"""The database or the topic that a fork's sink writes to, as the kind of the sink probes it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from streamwarden.drills.ports import Arrivals, ForkView
from streamwarden.errors import DrillError
from streamwarden.sinks.base import Sink


class ForkSink:
    """Implements `drills.ports.SinkProbe`."""

    def listen(self, fork: ForkView) -> AbstractContextManager[Arrivals]:
        """Reports every batch that the fork writes from here on."""
        return _sink(fork).listen(fork.spec)

    def newest(self, fork: ForkView) -> int | None:
        """Newest batch that is there."""
        return _sink(fork).newest(fork.spec)


def _sink(fork: ForkView) -> Sink:
    if not isinstance(fork.spec.sink, Sink):
        raise DrillError(f"{fork.stream} declares no sink", expected="a declared sink", where=f"sink of {fork.origin}")
    return fork.spec.sink
