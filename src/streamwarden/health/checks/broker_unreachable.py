"""Broker unreachable: the broker that the stream reads from or writes to does not answer."""

from __future__ import annotations

from streamwarden.health.check import Thresholds
from streamwarden.health.reachability import declare, verdict
from streamwarden.health.verdict import Verdict
from streamwarden.health.window import Service, Window


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How long the broker has not answered."""
    return verdict(CHECK, Service.BROKER, window, thresholds)


CHECK = declare(
    Service.BROKER,
    title="Broker unreachable",
    judge=check,
    also=(
        "A broker that answers and gives no offsets of the stream's topic is away for this stream: a partition without "
        "a leader, or an advertised address that this host cannot reach. "
    ),
    advice=(
        "Bring the broker back, or the network and the name resolution between it and this host; the reason names "
        "its address. The stream itself needs no cure: its driver waits, or ends and is restarted with back-off, and "
        "goes on at the offset where it stood. If it has used up its restarts, `streamwarden start NAME` once the "
        "broker answers. Records stay safe as long as the topic's retention is longer than the outage."
    ),
)
