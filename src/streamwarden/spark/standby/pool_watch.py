"""Keeps a pool of standbys filled, as long as this driver's next start may take one of them.

Each driver does so for itself; together they prepare no more than the project wants (see `standbys.filling`).
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from streamwarden.adapters import processes
from streamwarden.health.signals.series import POOL_BYTES
from streamwarden.health.window import Measurement
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitRecord
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
from streamwarden.spark.driver.control import Ending
from streamwarden.spark.driver.store_link import StoreLink
from streamwarden.spark.log import say
from streamwarden.spark.standby.watch import (
    FIRST_BATCH_WITHIN,
    LOOK_EVERY,
    MEASURE_EVERY,
    Asked,
    is_silent,
    restarts,
)
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds

LONGEST_START: Final[Seconds] = 120.0
"""Seconds after which the next standby is prepared although the one before has not answered yet."""

AFTER_DRILL: Final[Seconds] = 180.0
"""Seconds after a fork took a standby in which no other is prepared for forks; a drill takes some minutes."""


class PoolWatch:
    """Runs on a separate thread; does nothing for a stream without a pool.

    Args:
        ending: whether the driver is being stopped.
    """

    def __init__(self, spec: StreamSpec, folder: Path, link: StoreLink, *, ending: Callable[[], bool]) -> None:
        self._spec = spec
        self._folder = folder
        self._pool = pool_folder(folder.parents[2])
        self._link = link
        self._ending = ending
        document = files.read_document(folder / files.POOL) or {}
        self._sizes = {False: document.get("count", 0), True: document.get("drills", 0)}
        self._closed = threading.Event()
        self._began = time.monotonic()
        self._committed = False
        self._asked = Asked()
        self._settled = False
        self._living = 0
        self._for_forks = 0
        self._taken_at: float | None = None
        self._reported: int | None = None
        self._measure_at = 0.0

    def start(self) -> None:
        if any(self._sizes.values()):
            threading.Thread(target=self._run, name="streamwarden pool", daemon=True).start()

    def committed(self) -> None:
        """A batch was committed."""
        self._committed = True

    def close(self, outcome: ExitRecord, ending: Ending | None) -> None:
        """End the watch; if nothing is to restart this driver, leave the pool. Never raises."""
        self._closed.set()
        if any(self._sizes.values()) and not restarts(outcome, ending):
            with contextlib.suppress(OSError):
                leave_pool(self._pool, self._spec.name)

    def _run(self) -> None:
        while not self._closed.wait(LOOK_EVERY):
            try:
                self._turn()
            except Exception as error:  # a defect must not end the watch
                say(f"pool of standbys: {type(error).__name__}: {error}")

    def _turn(self) -> None:
        if self._ending():
            return
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
        self._measure(standbys)
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

    def _is_settled(self) -> bool:
        return self._committed or (
            self._link.started is not None and time.monotonic() - self._began > FIRST_BATCH_WITHIN
        )

    def _ask(self) -> None:
        now = time.monotonic()
        if self._asked.may_ask(now):
            (self._folder / files.POOL_WANTED).touch()
            self._asked = Asked(now, self._asked.times + 1)

    def _measure(self, standbys: Sequence[WaitingStandby]) -> None:
        """This stream's share of the memory of the pool: what each standby has, over the streams that may use it."""
        if time.monotonic() < self._measure_at:
            return
        self._measure_at, at = time.monotonic() + MEASURE_EVERY, time.time()
        share = sum(
            (processes.resident_bytes(standby.process) or 0) / max(1, len(users(standby.folder, at)))
            for standby in standbys
        )
        stream = self._spec.name
        self._link.measure(
            [Measurement(stream=stream, name=POOL_BYTES, at=at, value=float(share), unit="bytes", source="driver")]
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
