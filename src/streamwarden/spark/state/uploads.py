"""Uploads snapshots of the state sooner in a stream whose drivers die before one is uploaded.

Spark makes a snapshot when a batch commits, and uploads it in the background, at its next maintenance. A driver that
is killed before that leaves its successor one more version to replay, and a stream in a crash loop more with each life.
"""

from typing import Any, Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.state import state_stores
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.location import URL
from streamwarden.lifecycle.settings import MAINTENANCE
from streamwarden.lifecycle.submission import MIN_DELTAS_FOR_SNAPSHOT
from streamwarden.stream.spec import StreamSpec

AT_ONCE: Final = "100ms"
"""The maintenance interval of a driver whose first batch makes a snapshot. It is not the interval of each driver,
because each store asks the driver at each maintenance whether it is still wanted."""


def hasten_uploads(session: Any, spec: StreamSpec) -> None:
    """Before the query starts: shorten the interval if its first batch makes a snapshot, and the file sets none."""
    if MAINTENANCE not in spec.spark.conf and owed_versions(spec) >= MIN_DELTAS_FOR_SNAPSHOT - 1:
        session.conf.set(MAINTENANCE, AT_ONCE)


def owed_versions(spec: StreamSpec) -> int:
    """The most versions that a store of the state has to replay. 0 for a checkpoint that is not on a disk, where it
    takes a request for each store to learn that, and for one that cannot be read: the query reports that."""
    if URL.match(spec.checkpoint):
        return 0
    try:
        return max((store.replay.versions for store in state_stores(checkpoint_of(spec))), default=0)
    except CheckpointError:
        return 0
