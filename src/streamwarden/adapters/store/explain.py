"""Explains a database's error to a person on call, with the next step."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.exc import DBAPIError, TimeoutError

from streamwarden.adapters.postgresql.refusals import NO_DATABASE, NOT_LET_IN, UNREACHABLE


@dataclass(frozen=True, slots=True)
class Explanation:
    observed: str
    expected: str
    next_step: str
    busy: bool = False


_LOCKED: Final = ("database is locked", "database table is locked", "lock timeout")

_CAUSES: Final = (
    (
        _LOCKED,
        "another process has kept the store locked for more than {seconds:g} s",
        "a writer that takes milliseconds",
        "find that process (SQLite: `fuser -v {file}`, PostgreSQL: pg_locks); running streams continue, "
        "and their progress is loaded later",
    ),
    (
        ("file is not a database", "database disk image is malformed", "disk i/o error"),
        "the store's file is damaged",
        "a SQLite database",
        "stop all processes that write to {file}, move it and its -wal file to another folder, then restore a backup "
        "or let the next command create a new store; checkpoints are not affected",
    ),
    (
        ("readonly", "read-only", "permission denied"),
        "the store cannot be written",
        "write permission for this user on {file} and its folder",
        "give that permission (SQLite also creates -wal and -shm files in that folder)",
    ),
    (
        ("unable to open database file", "no such file"),
        "the store's file cannot be opened",
        "{file} to exist and to be readable and writable for this user",
        "check that the folder is mounted and belongs to this user; the next `streamwarden` command creates a store",
    ),
    (
        ("database or disk is full", "no space left"),
        "the disk of the store is full",
        "free space on the disk of {file}",
        "free space there; running streams continue, and their progress is loaded later",
    ),
    (
        ("no such table", "no such column", '(relation|column) ".*" does not exist'),
        "the store has not been migrated",
        "the tables of this version of Streamwarden",
        "run any `streamwarden` command: it migrates the store first",
    ),
    (
        NOT_LET_IN,
        "the database does not let this user in",
        "the right user and password in the store's URL, and a server that accepts connections from this host",
        "correct STREAMWARDEN_STORE_URL, or the user's rights on the server",
    ),
    (
        UNREACHABLE,
        "the database server cannot be reached",
        "a server that listens at the host and port of the store's URL",
        "start it, or correct STREAMWARDEN_STORE_URL; running streams continue, and their progress is loaded later",
    ),
    (
        NO_DATABASE,
        "the server has no such database",
        "the database that the store's URL names",
        "create it: `createdb NAME`; the next `streamwarden` command creates its tables",
    ),
    (
        ("no module named",),
        "the database driver of the store's URL is not installed",
        "a Python package for it",
        "install that package, or choose another driver in STREAMWARDEN_STORE_URL",
    ),
)
"""Recognised by the databases' own words, since SQLite and a failed connection to PostgreSQL give no common code."""


def explain(error: BaseException, *, path: Path | None, busy_timeout: float) -> Explanation:
    """The explanation of `error`, with the database's own text but without the statement and its parameters."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    said = " ".join(str(cause).split())
    file = str(path) if path else "the database"
    if isinstance(error, TimeoutError):
        said = f"no connection was free within {busy_timeout:g} s"
    for signs, observed, expected, step in _CAUSES:
        if any(re.search(sign, said.lower()) for sign in signs):
            text = observed.format(seconds=busy_timeout)
            busy = signs is _LOCKED
            return Explanation(f"{text} ({said})", expected.format(file=file), step.format(file=file), busy)
    return Explanation(
        f"the store refused ({type(cause).__name__}: {said})",
        "",
        "check that the database runs and that its URL, user and password are right (STREAMWARDEN_STORE_URL)",
    )
