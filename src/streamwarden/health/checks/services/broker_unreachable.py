"""Broker unreachable: the broker that the stream reads from or writes to does not answer."""

from streamwarden.health.check import Thresholds
from streamwarden.health.signals.reachability import declare, verdict
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
        "A broker that answers but returns no offsets of the stream's topic counts as unreachable for this stream: a "
        "partition has no leader, or the broker advertises an address that this host cannot reach. "
    ),
    advice=(
        "Bring the broker back, or restore the network and the name resolution between it and this host. The reason "
        "names its address. You need not repair the stream: its driver waits, or it ends and is restarted with "
        "back-off, and continues at its last offset. If the stream has used up its restarts, run `streamwarden start "
        "NAME` when the broker answers. No record is lost as long as the topic's retention is longer than the outage."
    ),
)
