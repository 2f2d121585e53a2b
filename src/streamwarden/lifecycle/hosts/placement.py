"""Decides whether this host may start a stream. Pure.

Which host asks is decided elsewhere: by the queue of the stream's task in Airflow, or by where a person runs
`streamwarden start`. A host that may not start the stream leaves it to another one.
"""

from dataclasses import dataclass

from streamwarden.lifecycle.hosts.elsewhere import OTHERS_FIRST
from streamwarden.lifecycle.hosts.report import Drain
from streamwarden.units import Seconds, format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What is known of a host and a stream before a launch there.

    Args:
        host: its name.
        drain: None: it is not drained.
        lacks: the checkpoint that a query of the stream has used and that is not on this host; None: there is none, or
            every host sees it, as one in an object store.
        last_host: name of the host on which that query ran.
        last_storage: id in the data folder of that host; None: it never reported one.
        storage: id in this host's data folder; None: it has none.
        silent_ago: seconds since the stream's last driver ended on this host because its storage did not answer there;
            None: it did not end so.
    """

    host: str
    drain: Drain | None = None
    lacks: str | None = None
    last_host: str | None = None
    last_storage: str | None = None
    storage: str | None = None
    silent_ago: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """Why a host may not start a stream."""

    observed: str
    expected: str
    where: str
    next_step: str


def unfit(facts: HostFacts) -> Unfit | None:
    """Why the host may not start the stream; None: it may.

    A checkpoint that is missing on a host with the same data folder is gone: that is not decided here, but refused by
    the check of the launch.
    """
    if facts.drain is not None:
        return Unfit(
            observed=f"the host {facts.host} is drained by {facts.drain.requested_by}: {facts.drain.reason}",
            expected="a host that is not drained",
            where=f"host {facts.host}",
            next_step=f"start the stream on another host, or run `streamwarden hosts resume {facts.host}`",
        )
    if facts.silent_ago is not None and facts.silent_ago < OTHERS_FIRST:
        return Unfit(
            observed=f"the stream's last driver ended on the host {facts.host}: its storage did not answer there",
            expected=f"{format_duration(OTHERS_FIRST)} after that, in which another host may start the stream",
            where=f"host {facts.host}",
            next_step="wait, or start the stream on another host",
        )
    elsewhere = facts.last_storage is not None and facts.last_storage != facts.storage
    if facts.lacks is not None and facts.last_host != facts.host and elsewhere:
        return Unfit(
            observed=f"the host {facts.host} does not have the checkpoint, which {facts.last_host} has written: their "
            "data folders are on different storage",
            expected="a host that shares the storage of the checkpoint",
            where=facts.lacks,
            next_step=f"mount that storage on {facts.host}, or let the stream's `queue` name hosts that share it",
        )
    return None
