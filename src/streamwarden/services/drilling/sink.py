"""The database or the topic that a fork's sink writes to, as the kind of the sink probes it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from streamwarden.config.loading import spec_from_dict
from streamwarden.drills.ports import Arrivals, ForkView
from streamwarden.errors import DrillError
from streamwarden.sinks.base import Sink
from streamwarden.stream import StreamSpec


class ForkSink:
    """Implements `drills.ports.SinkProbe`."""

    def listen(self, fork: ForkView) -> AbstractContextManager[Arrivals]:
        """Hear of every batch of the fork's from here on."""
        spec, sink = _sink(fork)
        return sink.listen(spec)

    def newest(self, fork: ForkView) -> int | None:
        """Newest batch that is there."""
        spec, sink = _sink(fork)
        return sink.newest(spec)


def _sink(fork: ForkView) -> tuple[StreamSpec, Sink]:
    spec = spec_from_dict(dict(fork.spec))
    if not isinstance(spec.sink, Sink):
        raise DrillError(f"{fork.stream} declares no sink", expected="a declared sink", where=f"sink of {fork.origin}")
    return spec, spec.sink
