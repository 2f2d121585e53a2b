"""Which savepoints of a stream are kept: `savepoints.keep` of its file. Pure."""

from collections.abc import Iterable

from streamwarden.lifecycle.savepoints.savepoint import Savepoint


def beyond(savepoints: Iterable[Savepoint], keep: int) -> list[str]:
    """The ids of the scheduled savepoints beyond the newest `keep` ones, oldest first.

    Never one that a person took, and never the newest of all: with at least one to keep, that is none of these.
    """
    scheduled = sorted((savepoint.id for savepoint in savepoints if savepoint.scheduled), reverse=True)
    return scheduled[: max(keep, 1) - 1 : -1]
