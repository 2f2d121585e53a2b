"""What drivers write: a batch of each every two seconds, and what goes with it, on PostgreSQL and on SQLite.

A driver asks once a second for a stop request, renews its lease every five seconds, and stores two measurements every
ten, in addition to its batches. `PROCESSES` processes do that for all drivers, each driver at times of its own, as
`spark/driver/store_link.py` does.
"""

from __future__ import annotations

import heapq
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from streamwarden.adapters.processes import identity
from streamwarden.adapters.store import Store
from streamwarden.errors import StoreError
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.lease import Lease

REPOSITORY: Final = Path(__file__).resolve().parents[2]
sys.path.extend([str(REPOSITORY), str(REPOSITORY / "tests")])

from benchmarks import simulated  # noqa: E402
from benchmarks.scale.part import Part, Sizes  # noqa: E402

from support.servers.postgres_server import running  # noqa: E402

PROCESSES: Final = 4
EVERY: Final = {"batch": 2.0, "stop": 1.0, "lease": 5.0, "measurements": 10.0}
"""Seconds between two calls of a driver of each kind."""
LATE: Final = 1.0
"""Seconds by which a batch may be stored late; a store that falls behind is later and later."""


def measure(sizes: Sizes) -> Iterator[str]:
    """Each size in each database; then how many batches a second each takes at most."""
    for name, database in (("PostgreSQL", postgresql), ("SQLite", sqlite)):
        for streams in sizes.streams:
            with database() as url:
                yield row(name, streams, *drive(url, streams, sizes.seconds))


def row(name: str, streams: int, stored: int, took: list[float], late: list[float], failed: int, wall: float) -> str:
    """Whether the writers kept their pace: the batches of the last seconds are no later than those before."""
    end = sorted(late[-max(1, len(late) // 5) :])
    behind = statistics.median(end)
    told = "keeps up" if behind <= LATE and not failed else f"falls behind, {behind:.0f} s at the end"
    quick = sorted(took)
    p95 = quick[int(len(quick) * 0.95) - 1] if quick else 0.0
    wanted = streams / EVERY["batch"]
    return (
        f"| {name} | {streams:,} | {wanted:.0f} | {stored / wall:.0f} | {statistics.median(took) * 1e3:.1f} ms "
        f"| {p95 * 1e3:.0f} ms | {failed} | {told} |"
    )


def drive(url: str, streams: int, seconds: float) -> tuple[int, list[float], list[float], int, float]:
    """Batches that were stored; seconds that each took, and by which it was late, in the order of time; writes that the
    store refused; seconds in all."""
    with Store(url) as store:
        store.migrate()
    shares = [range(start, streams, PROCESSES) for start in range(min(PROCESSES, streams))]
    with get_context("spawn").Pool(len(shares)) as pool:
        parts = pool.starmap(_drive_some, [(url, list(share), seconds) for share in shares])
    stored = sorted(one for part, _, _ in parts for one in part)
    wall = max(took for _, _, took in parts)
    return len(stored), [each[1] for each in stored], [each[2] for each in stored], sum(p[1] for p in parts), wall


def _drive_some(url: str, drivers: list[int], seconds: float) -> tuple[list[tuple[float, float, float]], int, float]:
    """(when, seconds, late by) of each batch of these drivers; refused writes; seconds."""
    stored: list[tuple[float, float, float]] = []
    failed = 0
    with Store(url, busy_timeout=10) as store:
        calls = _calls(store)
        leases = {number: _claim(store, number) for number in drivers}
        rng, began = random.Random(len(drivers)), time.monotonic()  # noqa: S311 - not secret
        due = [(began + rng.random() * every, kind, number) for kind, every in EVERY.items() for number in drivers]
        heapq.heapify(due)
        while (now := time.monotonic()) < began + seconds:
            at, kind, number = due[0]
            if at > now:
                time.sleep(min(at - now, 0.05))
                continue
            heapq.heapreplace(due, (at + EVERY[kind], kind, number))
            try:
                calls[kind](number, leases[number])
            except StoreError:
                failed += 1
            if kind == "batch":
                stored.append((time.time(), time.monotonic() - now, now - at))
    return stored, failed, time.monotonic() - began


def _calls(store: Store) -> dict[str, Callable[[int, Lease], object]]:
    """What a driver does, by kind."""
    batches: dict[int, int] = {}

    def batch(number: int, lease: Lease) -> None:
        batches[number] = batches.get(number, -1) + 1
        now = time.time()
        (report,) = simulated.history(now, 1, first=batches[number])
        store.batches.upsert_progress(f"stream_{number}", report, now - 1, now)

    def measurements(number: int, lease: Lease) -> None:
        at = time.time()
        store.measurements.add(
            Measurement(stream=f"stream_{number}", name=name, at=at, value=1e9, unit="bytes", source="driver")
            for name in ("resident_bytes", "state_dir_bytes")
        )

    return {
        "batch": batch,
        "measurements": measurements,
        "stop": lambda number, lease: store.stops.pending(f"stream_{number}-1"),
        "lease": lambda number, lease: store.leases.renew(lease, ttl=30.0, now=time.time()),
    }


def _claim(store: Store, number: int) -> Lease:
    """The lease of a driver, which is this process."""
    name = f"stream_{number}"
    lease = store.leases.acquire(f"/data/{name}", stream=name, holder=f"{name}-1", ttl=60.0, now=time.time())
    process = identity(os.getpid())
    assert process is not None
    return store.leases.bind(lease, process, ttl=60.0, now=time.time())


@contextmanager
def postgresql() -> Iterator[str]:
    """An empty database of a server that is started for it."""
    with running() as server:
        yield server.create("streams")


@contextmanager
def sqlite() -> Iterator[str]:
    """A store in a file on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/store.db"


PART = Part(
    name="writes",
    goal="Writes of drivers with a batch every two seconds; goal: PostgreSQL keeps up with 1,000 (500 a second)",
    head="| store | drivers | batches a second wanted | stored | a write | 95 % within | refused | |",
    measure=measure,
)
