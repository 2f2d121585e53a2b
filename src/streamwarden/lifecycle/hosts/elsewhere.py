"""Whether another host reaches a storage that does not answer on this one. Pure.

A storage that answers nobody is waited for: a start on another host would not help. If it answers elsewhere, it is this
host that is cut off.
"""

from collections.abc import Collection, Iterable
from typing import Final

from streamwarden.lifecycle.hosts.report import HostReport
from streamwarden.units import Seconds

STORAGE_SILENT: Final = "StorageUnresponsive"
"""Error class of a driver that ended because the storage of its checkpoint did not answer on its host."""

OTHERS_FIRST: Final[Seconds] = 30.0
"""Seconds for which the host of such a driver leaves the stream to others: it would claim the stream, find no storage,
and keep them out meanwhile."""

ASK_AFTER: Final[Seconds] = 15.0
"""Seconds without an answer after which a driver asks whether another host gets one: each host has reported three times
by then, and has read the storage each time."""

_UNSURE: Final[Seconds] = 7.0
"""Seconds at the beginning of a silence in which a report proves nothing. The storage is asked every two seconds, and
each of two clocks may be two seconds off without being noticed."""


def reached_by(
    reports: Iterable[HostReport], drained: Collection[str], *, here: str, storage: str, silent_since: float
) -> str | None:
    """The name of a host, other than `here`, that has read the storage in the silence and may start drivers; None:
    there is none.

    Args:
        storage: id of the storage.
        silent_since: by the clock of the store's server, as the times of the reports.
    """
    for report in reports:
        reached = report.storage == storage and report.heartbeat_at > silent_since + _UNSURE
        if reached and report.name != here and report.name not in drained:
            return report.name
    return None
