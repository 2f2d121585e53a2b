"""Killing a driver in mid-batch: after a batch was planned and before it is committed."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

from streamwarden.adapters import processes
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import batch_ids, list_or_empty
from streamwarden.lifecycle import driver_folder as files
from streamwarden.stream.spec import StreamSpec
from support.spark.drivers import Project, until


def newest(checkpoint: str, log: str, connection: str | None = None) -> int:
    """The newest batch in `offsets` or `commits`; -1 if there is none."""
    if "://" in checkpoint:
        return max(batch_ids(list_or_empty(open_path(checkpoint, connection) / log)), default=-1)
    try:
        return max((int(name) for name in os.listdir(Path(checkpoint, log)) if name.isdigit()), default=-1)  # noqa: PTH208
    except FileNotFoundError:
        return -1


def _in_batch(made: Project, spec: StreamSpec, after: int) -> bool:
    driver = made.store.drivers.latest(spec.name) if spec.in_object_store else None
    if driver is not None:  # where a look takes its time anyway
        assert made.fleet.observe(driver.driver_id).alive, made.log(driver.driver_id)
    planned = newest(spec.checkpoint, "offsets", spec.storage.connection)
    return planned > max(newest(spec.checkpoint, "commits", spec.storage.connection), after)


def kill_in_mid_batch(made: Project, spec: StreamSpec, *, after: int, lives: int = 5) -> int:
    """Start `spec`, and SIGKILL it in a batch beyond `after`; returns that batch, which is then not committed.

    A kill that came just after the commit is followed by another life.
    """
    for _ in range(lives):
        driver = made.start(spec)
        until(
            f"a batch of {spec.name} after {after}",
            partial(_in_batch, made, spec, after),
            poll=0.002,
            told=partial(made.log, driver),
        )
        process = files.read_process(made.folder(driver))
        assert process is not None
        assert processes.signal_group(process, signal.SIGKILL)
        until("nothing left", lambda: not made.living())
        made.await_end(driver)
        committed, planned = (newest(spec.checkpoint, log, spec.storage.connection) for log in ("commits", "offsets"))
        if planned > committed:
            return planned
        after = committed
    raise AssertionError(f"{lives} kills, and none between a plan and its commit")
