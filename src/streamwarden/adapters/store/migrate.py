"""Migrates a store to this version's tables. Cheap for a current store, safe if many processes do it at once."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from streamwarden.adapters.store.database import Database, StoreBusy
from streamwarden.adapters.store.tables import metadata

HEAD: Final = "v0003"
"""The newest revision under migrations/versions; known here, so that a current store costs no import of Alembic."""

MIGRATIONS: Final = Path(__file__).parent / "migrations"
_ADVISORY_KEY: Final = 0x57415244454E
"""A number that no other program locks in the same PostgreSQL database ("WARDEN")."""

_PAUSE: Final = 0.05


def migrate(database: Database, *, timeout: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
    """Create or upgrade the tables.

    One exclusive transaction: a second process waits and then finds the tables migrated. A store that stays locked is
    tried again for `timeout` seconds. Raises StoreError, also for a store of a newer Streamwarden.
    """
    deadline = clock() + timeout
    while True:
        try:
            if (database.path is None or database.path.exists()) and _is_current(database):
                return
            database.create()  # for SQLite: WAL mode, which two processes cannot set at once
            database.write(_upgrade)
            return
        except StoreBusy:
            if clock() > deadline:
                raise
            time.sleep(_PAUSE)


def revision(connection: Connection) -> str | None:
    """The store's revision; None for an empty database."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    version = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return None if version is None else str(version)


def _is_current(database: Database) -> bool:
    version = database.read(revision)
    if version is not None and not version.startswith("v"):  # the revisions of the schema before its first release
        raise database.failure(
            f"the store is of a version before 0.1.0 (revision {version}), which nothing migrates",
            expected="an empty database, or a store of version 0.1.0 or later",
            next_step="stop the streams, then delete this store or name a new one in STREAMWARDEN_STORE_URL",
        )
    if version is not None and version > HEAD:
        raise database.failure(
            f"the store was migrated to revision {version} by a newer Streamwarden",
            expected=f"revision {HEAD} or older",
            next_step="upgrade this installation",
        )
    return version == HEAD


def _upgrade(connection: Connection) -> None:
    from alembic import command  # imported here: half a second that a current store does not pay
    from alembic.config import Config

    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_KEY)))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    if revision(connection) is None:
        metadata.create_all(connection, checkfirst=False)
        command.stamp(config, "head")
    else:
        command.upgrade(config, "head")
