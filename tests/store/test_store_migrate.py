"""The first process creates and upgrades a store, and only once."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import postgresql

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.migrate import HEAD, MIGRATIONS
from streamwarden.adapters.store.tables import metadata
from streamwarden.errors import StoreError
from support.first_store import make_first_store
from support.streams.reports import report
from support.streams.stores import migrate_at_once


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_an_empty_place_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "new folder 100%" / "streamwarden.db"
    with Store(f"sqlite:///{path}") as store:
        store.migrate()
        store.batches.upsert_progress("flights", report(1))
    assert set(metadata.tables) <= tables(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_migrating_twice_changes_nothing(path: Path, store: Store) -> None:
    store.batches.upsert_progress("flights", report(1))
    before = path.read_bytes()
    store.migrate()
    assert path.read_bytes() == before
    assert len(store.batches.window("flights")) == 1


def test_a_current_store_is_migrated_although_it_is_locked(path: Path, open_store: Callable[..., Store]) -> None:
    """The check only reads, so a busy store prevents no process from starting."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        store = open_store(busy_timeout=0.1)
        store.migrate(timeout=0.1)
        assert store.batches.window("flights") == (), "and it can be read"


def test_ten_processes_migrate_an_empty_place_at_once(tmp_path: Path) -> None:
    path = tmp_path / "streamwarden.db"
    migrate_at_once(f"sqlite:///{path}", processes=10)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]


def test_a_migration_that_waits_for_the_lock_gives_up_in_time(tmp_path: Path) -> None:
    path = tmp_path / "streamwarden.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with Store(f"sqlite:///{path}", busy_timeout=0.1) as store, pytest.raises(StoreError, match="locked"):
            store.migrate(timeout=0.3)


def test_a_store_of_a_newer_streamwarden_is_left_alone(path: Path, store: Store) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v9999'")
    with pytest.raises(StoreError, match="v9999") as caught:
        store.migrate()
    assert caught.value.next_step == "upgrade this installation"


@pytest.mark.parametrize("revision", ["0001", "0011"])
def test_a_store_of_before_the_first_release_is_left_alone(path: Path, store: Store, revision: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"before 0.1.0 .*{revision}") as caught:
        store.migrate()
    assert "delete this store" in caught.value.next_step
    assert path.read_bytes() == before


def test_the_newest_revision_is_the_one_that_the_quick_check_knows() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


@pytest.mark.parametrize("first", [False, True], ids=["new", "0.1.0"])
def test_a_store_has_exactly_the_tables_of_the_code(first: bool, tmp_path: Path) -> None:
    """One that was made now, and one of version 0.1.0 after its migration."""
    url = f"sqlite:///{tmp_path / 'streamwarden.db'}"
    if first:
        make_first_store(url)
    with Store(url) as store:
        store.migrate()
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "target_metadata": metadata})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_the_comparison_of_tables_notices_a_difference(path: Path) -> None:
    """Negative control of the test above."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE hourly")
        connection.execute("DROP INDEX uq_leases_current")
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    engine.dispose()
    assert {difference[0] for difference in differences} == {"add_table", "add_index"}


def test_the_tables_can_be_said_in_postgresql() -> None:
    dialect = postgresql.dialect()
    statements = [str(sa.schema.CreateTable(table).compile(dialect=dialect)) for table in metadata.sorted_tables]
    assert any("BIGSERIAL" in statement for statement in statements)
