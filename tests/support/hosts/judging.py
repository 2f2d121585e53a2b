"""How the tests on several hosts begin, and how each of them is judged at its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from support.hosts.streams import HostedStream, overlaps
from support.spark.drivers import until

WITHIN: Final = 60.0
"""Seconds within which a stream has to run on another host."""

START: Final = 15.0
"""Seconds from the launch of a driver to its first batch, on a quiet machine."""


@contextmanager
def running_on_one(stream: HostedStream, **env: str) -> Iterator[None]:
    """Events flow, the host `one` runs the stream, and both hosts supervise it; `env`: of the supervisor on `two`."""
    stream.events.publish()
    with stream.events.flowing():
        stream.supervise("one")
        stream.await_commits(2, "one")
        stream.supervise("two", **env)
        until("two follows the driver", lambda: "driver" in stream.said("two"))
        yield


def all_report(stream: HostedStream) -> None:
    """`hosts run` runs on every host."""
    hosts = stream.park.hosts
    for name in hosts:
        stream.keep_running(name, "hosts", "run")
    until("all hosts report", lambda: stream.try_call("two", "hosts")[1].count("ready") == len(hosts), 60)


def report(stream: HostedStream, took: float) -> None:
    """Print how long a takeover took, which has just ended, and its steps."""
    print(f"running on the other host after {took:.1f} s\n{stream.timeline(time.time() - took)}")


def allowed(stream: HostedStream) -> float:
    """Seconds within which the other host has to take over: `WITHIN`, on a machine that starts a driver in `START`. A
    busy one gets twice the time by which it was slower at the start of either driver. The second one proves that the
    machine is busy up to twice the time of the first: what is beyond that may be the takeover's own."""
    first, second = stream.starts()
    slower = max(0.0, max(first, min(second, 2 * first)) - START)
    print(f"the drivers began after {first:.1f} s and {second:.1f} s: the machine was {slower:.1f} s slower")
    return WITHIN + 2 * slower


def await_all(stream: HostedStream) -> None:
    """Wait until the output has as many events as were published."""
    until(
        "every event comes out",
        lambda: len(stream.delivered()) >= stream.events.count,
        90,
        told=lambda: f"missing: {len(stream.events.ids - set(stream.delivered()))}; {stream.written()[-5:]}",
    )


def defects(stream: HostedStream, *, woke: bool = False) -> dict[str, list[object]]:
    """What went wrong, once the output has as many events as were published: events that are missing, that nobody
    published, or that are there twice, and what a host wrote after another one had taken over. Empty: nothing.

    Args:
        woke: the old driver stood still in the middle of a batch, and then went on until it saw the loss of its lease,
            or the storage carried out a call that it had taken: what was written then must be in no log and named by
            none. Such a file of state is of the batch that the new driver has executed again, by the same plan, and so
            it has the same content.
    """
    await_all(stream)
    counts, published = stream.delivered(), stream.events.ids
    found: dict[str, list[object]] = {
        "missing": [*published - set(counts)],
        "unknown": [*set(counts) - published],
        "twice": [event for event, times in counts.items() if times > 1],
        "second writer": [file for file in overlaps(stream.written()) if not woke or stream.counts(file)],
        "beside": [*stream.beside()],
    }
    return {kind: what for kind, what in found.items() if what}
