"""Keeps a pool of standbys filled, as long as this driver's next start may take one of them.

Each driver does so for itself; together they prepare no more than the project wants (see `standbys.filling`).
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from streamwarden.adapters import processes
from streamwarden.health.signals.series import POOL_BYTES
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.supervision.pool import POOL, pool_event
from streamwarden.lifecycle.supervision.standby import digest
from streamwarden.services.fleet.launching.deployed_code import shipped_code_of
from streamwarden.services.fleet.standbys.pool import (
    forget,
    is_for_forks,
    leave_pool,
    of_stream,
    pool_folder,
    use,
    users,
)
from streamwarden.services.fleet.standbys.waiting import WaitingStandby, dismiss
from streamwarden.spark.driver.store_link import StoreLink
from streamwarden.spark.standby.keeper import Asked, Keeper, is_silent
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds

LONGEST_START: Final[Seconds] = 120.0
"""Seconds after which the next standby is prepared although the one before has not answered yet."""

AFTER_DRILL: Final[Seconds] = 180.0
"""Seconds after a fork took a standby in which no other is prepared for forks; a drill takes some minutes."""


class PoolWatch(Keeper):
    """Keeps the pool that a stream shares with others."""

    KEPT = "pool of standbys"
    WANTED = files.POOL_WANTED
    SERIES = POOL_BYTES

    def __init__(self, spec: StreamSpec, folder: Path, link: StoreLink, *, ending: Callable[[], bool]) -> None:
        super().__init__(spec, folder, link, ending=ending)
        self._pool = pool_folder(folder.parents[2])
        document = files.read_document(folder / files.POOL) or {}
        self._sizes = {False: document.get("count", 0), True: document.get("drills", 0)}
        self._settled = False
        self._living = 0
        self._for_forks = 0
        self._taken_at: float | None = None
        self._reported: int | None = None

    def keeps(self) -> bool:
        return any(self._sizes.values())

    def give_up(self) -> None:
        leave_pool(self._pool, self._spec.name)

    def look(self) -> None:
        """Say which standbys this stream uses, and ask for one if there are too few."""
        settled = self._is_settled()
        if settled and not self._settled:  # those of the driver before may not fit this one
            forget(self._pool, self._spec.name)
        self._settled = settled
        standbys = self._kept()
        for standby in standbys:
            use(standby.folder, self._spec.name)
        if not settled:
            return
        if len(standbys) > self._living:  # one came: the next is asked for at once
            self._asked = Asked()
        self._living = len(standbys)
        of_kind = Counter(is_for_forks(standby.folder) for standby in standbys)
        if of_kind[True] < self._for_forks:
            self._taken_at = time.monotonic()
        self._for_forks = of_kind[True]
        short = any(of_kind[forks] < size for forks, size in self._sizes.items() if not (forks and self._drills()))
        if short and not any(is_starting(standby, time.time()) for standby in standbys):
            self._ask()
        self._measure(lambda at: self._share(standbys, at))
        self._report([standby for standby in standbys if not is_for_forks(standby.folder)])

    def _kept(self) -> list[WaitingStandby]:
        """The standbys that fit this stream or its forks, without those that are of older code or no longer answer:
        these end."""
        code, kept = digest(shipped_code_of(self._spec)), []
        for standby in of_stream(self._pool, self._spec.name):
            if standby.record.fit.code != code or is_silent(standby, time.time()):
                dismiss(standby.folder)
            else:
                kept.append(standby)
        return kept

    def _drills(self) -> bool:
        """Whether a drill has just begun: it gets the processor for itself."""
        return self._taken_at is not None and time.monotonic() - self._taken_at < AFTER_DRILL

    def _share(self, standbys: Sequence[WaitingStandby], at: float) -> float:
        """What each standby has, over the streams that may use it."""
        return sum(
            (processes.resident_bytes(standby.process) or 0) / max(1, len(users(standby.folder, at)))
            for standby in standbys
        )

    def _report(self, standbys: Sequence[WaitingStandby]) -> None:
        """Record a change of the number of standbys that are ready for this stream."""
        at, size = time.time(), self._sizes[False]
        seen = sum(standby.is_ready(at) for standby in standbys)
        if size and seen != self._reported:
            self._reported = seen
            self._link.event(POOL, **pool_event(self._folder.name, seen, size, at).detail)


def is_starting(standby: WaitingStandby, now: float) -> bool:
    """Whether the standby warms up; one after another does, so that a host is not busy with nothing else."""
    return standby.answered_at is None and now - standby.record.prepared_at < LONGEST_START
