"""A driver process that waits to be promoted: it warms up, then it waits for a lease.

Until then it opens neither the store nor the stream's checkpoint and output: it reads its own folder and the job's
file, and writes to its own folder alone.
"""

import contextlib
import os
import select
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from streamwarden import disk
from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.job_files import has_build
from streamwarden.lifecycle.supervision.standby import ORPHANED_AFTER, StandbyRecord
from streamwarden.services.fleet.launching.class_archive import write_rehearsal
from streamwarden.spark.driver.jobs import load_build
from streamwarden.spark.internals.jvm import collect_garbage, jvm_clock, stop_state_stores
from streamwarden.spark.log import say
from streamwarden.spark.standby.rehearsal import rehearse

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the leader and at the folder; a promotion is noticed at once."""

ASK_EVERY: Final = 5.0
"""Seconds between two questions to the JVM."""

REHEARSED: Final = range(6), range(6, 12)
"""Batches of both runs of the rehearsal. The JVM compiles what runs often: the first batch of the query that follows
needs less of the processor after each of them, and little less after a dozen."""

SHUFFLES: Final = "spark.sql.shuffle.partitions"


def stand_by(folder: Path, job: Path) -> Any | None:
    """Warm up, and return when this process has a lease. Ends the process if that is not to be.

    Returns the session, for the job to find; None for a script, which opens its own.
    """
    record = StandbyRecord.from_document(files.read_document(folder / files.STANDBY) or {})
    leader = record.leader_process
    session = warm_up(folder / files.TEMPORARY / "rehearsal", job)
    await_promotion(
        folder,
        promoted=lambda: files.read_lease(folder) is not None,
        wanted=lambda: leader is None or bool(processes.is_alive(leader)),
        ask=jvm_clock(),
    )
    return session


def warm_up(scratch: Path, job: Path) -> Any | None:
    """Open a session, run a query and import the job. What fails here fails again, with its report, in the driver."""
    session = rehearsed(scratch)
    if not has_build(job):
        session.stop()  # a script may open it with settings that only a new session takes
        return None
    with _going_on("the import of the job"):
        load_build(job)
    collect_garbage(session)
    return session


def rehearsed(scratch: Path) -> Any:
    """A session that has run a query."""
    session: Any = SparkSession.builder.getOrCreate()
    with _going_on("the rehearsal"):
        _rehearse(session, scratch)
        stop_state_stores(session)  # and their maintenance, whose interval the stream may want to be another one
    return session


def _rehearse(session: Any, scratch: Path) -> None:
    """Run the query twice: the second time it begins as a restart does, from a checkpoint with state.

    The partitions of the stream's state have nothing to do with the classes that it needs.
    """
    partitions = session.conf.get(SHUFFLES)
    session.conf.set(SHUFFLES, "1")
    try:
        for batches in REHEARSED:
            write_rehearsal(scratch, batches)
            rehearse(session, scratch)
    finally:
        session.conf.set(SHUFFLES, partitions)
        disk.remove_folder(scratch, below=scratch.parent)


@contextlib.contextmanager
def _going_on(what: str) -> Any:
    try:
        yield
    except Exception:
        say(f"{what} failed, and the standby waits all the same: {traceback.format_exc()}")


def await_promotion(
    folder: Path, *, promoted: Callable[[], bool], wanted: Callable[[], bool], ask: Callable[[], object]
) -> None:
    """Wait, at almost no cost. Ends this process if it was dismissed, or nobody has wanted it for `ORPHANED_AFTER`."""
    began = heard_of = time.monotonic()
    parent, asked = os.getppid(), 0.0
    os.mkfifo(folder / files.GO, disk.PRIVATE)
    pipe = os.open(folder / files.GO, os.O_RDWR | os.O_NONBLOCK)  # open for writing too, or it would be at its end
    wake = select.poll()
    wake.register(pipe, select.POLLIN)
    while not promoted():
        now = time.monotonic()
        if now - asked >= ASK_EVERY:
            asked = _answered(folder, ask, now)
        if wanted():
            heard_of = now
        if os.getppid() != parent or (folder / files.DISMISSED).exists():
            os._exit(0)
        if now - heard_of > ORPHANED_AFTER and files.settle_standby(folder, files.DISMISSED):
            os._exit(0)
        wake.poll(LOOK_EVERY * 1000)
    os.close(pipe)
    say(f"promoted, after it had waited for {time.monotonic() - began:.0f} s")


def _answered(folder: Path, ask: Callable[[], object], now: float) -> float:
    """Ask the JVM, and keep when it answered; returns when it was asked."""
    ask()
    (folder / files.READY).touch(disk.PRIVATE)
    return now
