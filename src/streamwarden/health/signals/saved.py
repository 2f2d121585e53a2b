"""The newest savepoint of a stream, as the health checks see it."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from streamwarden.checkpoint.filesystem import Location
from streamwarden.lifecycle.savepoints.savepoint import MANIFEST, is_id


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestSavepoint:
    """Args:
    id: None: there is none with a manifest that can be read.
    taken_at: Unix seconds.
    interval: of the schedule at that time, or now if there is none; seconds.
    left: newer folders that are no savepoints: one that is being taken, or what failed.
    """

    id: str | None = None
    query_id: str = ""
    batch: int = -1
    taken_at: float = 0.0
    interval: float = 86400.0
    left: tuple[str, ...] = ()


def newest_savepoint(root: Location, interval: Callable[[float], float]) -> NewestSavepoint:
    """The newest savepoint below `root`, by its manifest: its files are not read. Raises OSError.

    Args:
        interval: of the schedule at a time, in seconds.
    """
    left: list[str] = []
    for name in sorted(filter(is_id, _names(root)), reverse=True):
        try:
            document = json.loads((root / name / MANIFEST).read())
            taken_at = datetime.fromisoformat(document["taken_at"]).timestamp()
            return NewestSavepoint(
                id=name,
                query_id=str(document["query_id"]),
                batch=int(document["batch"]),
                taken_at=taken_at,
                interval=interval(taken_at),
                left=tuple(left),
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            left.append(name)
    return NewestSavepoint(left=tuple(left), interval=interval(time.time()))


def _names(root: Location) -> list[str]:
    try:
        return list(root.names())
    except FileNotFoundError:
        return []
