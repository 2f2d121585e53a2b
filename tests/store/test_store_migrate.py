"""The first process creates and upgrades a store, and only once."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import postgresql

from streamwarden.adapters.store import Rolled, Store
from streamwarden.adapters.store.database import Database
from streamwarden.adapters.store.migrate import HEAD, MIGRATIONS
from streamwarden.adapters.store.tables import drills, metadata
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.reporting.resilience import trials_of
from streamwarden.errors import StoreError
from streamwarden.health.incidents.delivery import Delivery
from streamwarden.health.verdict import Status
from streamwarden.redaction import REDACTED
from support.reports import report
from support.stored_journals import stored
from support.stores import migrate_at_once


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
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="9999") as caught:
        store.migrate()
    assert caught.value.next_step == "upgrade this installation"


def test_the_newest_revision_is_the_one_that_the_quick_check_knows() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_secrets_that_an_earlier_version_stored_are_removed(tmp_path: Path) -> None:
    """From the rows, and from the pages of the file that held them."""
    secret = "hunter2-hunter2"
    path = tmp_path / "streamwarden.db"
    database = Database(f"sqlite:///{path}")
    database.create()
    database.write(partial(upgrade_to, "0003"))
    facts = {"fork": {"spec": {"spark": {"conf": {"spark.ssl.keyPassword": secret}, "driver_memory": 5}}}}
    run = "INSERT INTO drills VALUES ('run', 'kill', 'flights', 1, 2, 'failed', NULL, ?, ?)"
    entry = "INSERT INTO journal_entries VALUES (1, 'run', 'heal', 1, 'note', 'healed', ?)"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(run, (f"login with password={secret} failed", json.dumps(facts)))
        connection.execute(entry, (json.dumps({"removed": ["a"]}),))
    with Store(f"sqlite:///{path}") as store:
        store.migrate()
        found = store.journals.get("run")
        assert found is not None
        assert found.reason == f"login with password={REDACTED} failed"
        facts["fork"]["spec"]["spark"]["conf"] = {"spark.ssl.keyPassword": REDACTED}
        assert found.facts == facts
        assert [each.data for each in store.journals.entries("run")] == [{"removed": ["a"]}]
    database.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for each in tmp_path.iterdir():
        assert secret.encode() not in each.read_bytes(), each


def test_batches_and_incidents_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    """Neither has what revision 0010 added, and a report that comes again changes nothing."""
    path = tmp_path / "old.db"
    database = Database(f"sqlite:///{path}")
    database.create()
    database.write(partial(upgrade_to, "0009"))
    database.close()
    old = report(1, at=100.0)
    names = (
        "stream, query_id, batch_id, run_id, at, started_at, executed, duration_ms, rows, malformed, origin, progress"
    )
    values = ("flights", old.query_id, 1, old.run_id, 100.0, 100.0, True, 5, 10, 0, "progress", json.dumps(old.raw))
    incident = "('i', 'flights', 'backlog', 'WARNING', 'WARNING', 0, 1, 1, 'behind', '')"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"INSERT INTO batches ({names}) VALUES ({', '.join('?' * len(values))})", values)
        connection.execute(
            "INSERT INTO incidents (incident_id, stream, check_name, status, peak, good, opened_at, updated_at, "
            f"reason, advice) VALUES {incident}"
        )
    with Store(f"sqlite:///{path}") as store:
        store.migrate()
        (batch,) = store.batches.window("flights")
        assert batch.progress == old
        (found,) = store.incidents.open()
        assert found.evidence == {}
        store.batches.upsert_progress("flights", old)
        store.roll_up(2 * 3600.0)
        assert Rolled.DURATION in {each.name for each in store.measurements.hourly("flights", 0)}


def test_the_runs_that_an_earlier_version_stored_have_their_trials(tmp_path: Path) -> None:
    """But not those that go on, and not those that cannot be read."""
    done, _ = stored("kill_driver", run_id="done")
    runs = (done, replace(done, run_id="running", status=DrillStatus.RUNNING), replace(done, run_id="odd", facts={}))
    database = Database(f"sqlite:///{tmp_path / 'streamwarden.db'}")
    database.create()
    database.write(partial(upgrade_to, "0009"))
    insert = drills.insert()
    rows = [
        {**{each.name: getattr(run, each.name) for each in fields(DrillRun)}, "status": run.status.value}
        for run in runs
    ]
    database.write(lambda connection: connection.execute(insert, rows))
    database.close()
    with Store(f"sqlite:///{tmp_path / 'streamwarden.db'}") as store:
        store.migrate()
        assert store.trials.newest() == trials_of(done) != ()


def upgrade_to(revision: str, connection: sa.Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def test_the_revisions_build_exactly_the_tables_of_the_code(path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{path}")
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


def test_what_was_notified_before_channels_had_records_is_not_sent_again(tmp_path: Path) -> None:
    """The migration of a store with one open incident that was sent, and one that was not."""
    path = tmp_path / "old.db"
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0004")
        row = "(?, 'orders', ?, 'WARNING', 'WARNING', 0, 1, 1, ?, ?, '', '')"
        columns = (
            "incident_id, stream, check_name, status, peak, good, opened_at, updated_at, notified_at, notified_status"
        )
        statement = f"INSERT INTO incidents ({columns}, reason, advice) VALUES {row}"
        for values in (("sent", "a", 100.0, "WARNING"), ("new", "b", None, None)):
            connection.exec_driver_sql(statement, values)
    engine.dispose()
    with Store(f"sqlite:///{path}") as store:
        store.migrate()
        sent = Delivery(subject="sent", channel="slack-1", sent_at=100.0, sent_status=Status.WARNING)
        assert store.deliveries.of("slack-1") == {"sent": sent}
        assert {incident.incident_id for incident in store.incidents.open()} == {"sent", "new"}
