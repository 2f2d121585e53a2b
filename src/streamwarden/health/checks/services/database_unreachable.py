"""Database unreachable: the database that the stream writes to does not answer."""

from streamwarden.health.check import Thresholds
from streamwarden.health.signals.reachability import declare, verdict
from streamwarden.health.verdict import Verdict
from streamwarden.health.window import Service, Window


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How long the database has not answered."""
    return verdict(CHECK, Service.DATABASE, window, thresholds)


CHECK = declare(
    Service.DATABASE,
    title="Database unreachable",
    judge=check,
    advice=(
        "Bring the database back, or restore the network and the name resolution between it and this host. The reason "
        "names its address. Nothing is lost: the waiting batch is written once when the database answers. If the "
        "stream has used up its restarts by then, run `streamwarden start NAME`. After a failover, check that the "
        "connection names the new primary."
    ),
)
