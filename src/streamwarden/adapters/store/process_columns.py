"""Columns that several tables share: a process identity in three columns."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Row

from streamwarden.lifecycle.driver import ProcessIdentity


def process_columns(process: ProcessIdentity | None) -> dict[str, Any]:
    """The three columns; all None for no process."""
    return {
        "host": process.host if process else None,
        "pid": process.pid if process else None,
        "process_started_at": process.started_at if process else None,
    }


def read_process(row: Row[Any]) -> ProcessIdentity | None:
    """The process of a row with those columns."""
    if row.pid is None:
        return None
    return ProcessIdentity(host=row.host, pid=row.pid, started_at=row.process_started_at)
