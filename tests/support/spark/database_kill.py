"""Killing a driver between its database's commit of a batch and Spark's own."""

from __future__ import annotations

import signal
from pathlib import Path

import psycopg

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.sinks.postgresql.batch_table import CHANNEL, Note
from streamwarden.stream.spec import StreamSpec
from support.spark.drivers import Project, until
from support.spark.mid_batch import newest


def kill_after_database_commit(made: Project, spec: StreamSpec, database: str, *, after: int, lives: int = 5) -> int:
    """Start `spec`, and SIGKILL it when the database has a batch beyond `after` and `commits/` has not; returns it.

    A kill that came just after Spark's commit is followed by another life.
    """
    for _ in range(lives):
        with psycopg.connect(database, autocommit=True) as listener:
            listener.execute(f"LISTEN {CHANNEL}")
            driver = made.start(spec)
            for each in listener.notifies(timeout=120):
                note = Note.parse(each.payload)
                assert note is not None
                if note.batch_id > after and not Path(spec.checkpoint, "commits", str(note.batch_id)).exists():
                    process = files.read_process(made.folder(driver))
                    assert process is not None
                    assert processes.signal_group(process, signal.SIGKILL)
                    break
            else:
                raise AssertionError(f"no batch in the database in two minutes\n{made.log(driver)}")
        until("nothing left", lambda: not made.living())
        made.await_end(driver)
        if newest(spec.checkpoint, "offsets") == note.batch_id > newest(spec.checkpoint, "commits"):
            return note.batch_id
        after = newest(spec.checkpoint, "commits")
    raise AssertionError(f"{lives} kills, and none between the two commits")
