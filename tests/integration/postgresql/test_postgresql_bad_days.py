"""PostgreSQL as the store on a bad day: each is a StoreError that says what to do, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from streamwarden.adapters.processes import identity
from streamwarden.adapters.store import Store
from streamwarden.adapters.store.migrate import HEAD
from streamwarden.adapters.store.tables import metadata
from streamwarden.errors import LeaseHeld, StoreError
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.lease import is_held
from support.children import children
from support.first_store import make_first_store
from support.servers.postgres_server import USER, PostgreSQL
from support.streams.lease_race import CHECKPOINT, RACES, racer, run
from support.streams.reports import QUERY, report
from support.streams.stores import migrate_at_once

RACERS = 50


def test_a_server_that_is_not_there_is_told_at_once(server: PostgreSQL) -> None:
    began = time.monotonic()
    nowhere = f"postgresql+psycopg://{USER}:secret-word@127.0.0.1:1/x"
    with Store(nowhere) as store, pytest.raises(StoreError, match="the database server cannot be reached") as caught:
        store.batches.window("flights")
    assert "secret-word" not in str(caught.value)
    assert time.monotonic() - began < 10


def test_a_wrong_password_is_told_and_not_shown(server: PostgreSQL, store_url: str) -> None:
    wrong = store_url.replace(server.password, "wrong-word")
    with Store(wrong) as store, pytest.raises(StoreError, match="does not let this user in") as caught:
        store.batches.window("flights")
    assert "wrong-word" not in f"{caught.value} {store!r}"
    assert USER in str(caught.value)


def test_a_database_that_is_not_there_is_told(server: PostgreSQL) -> None:
    with Store(server.url("nobody_made_it")) as store, pytest.raises(StoreError, match="no such database"):
        store.batches.window("flights")


def test_a_database_without_tables_is_told_and_migrated(server: PostgreSQL) -> None:
    url = server.create("empty")
    with Store(url) as store:
        with pytest.raises(StoreError, match="not been migrated"):
            store.batches.window("flights")
        store.migrate()
        assert store.batches.window("flights") == ()


def test_ten_processes_migrate_an_empty_database_at_once(server: PostgreSQL) -> None:
    url = server.create("crowded")
    migrate_at_once(url, processes=10)
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        assert MigrationContext.configure(connection).get_current_revision() == HEAD
    engine.dispose()


@pytest.mark.parametrize("first", [False, True], ids=["new", "0.1.0"])
def test_a_store_has_exactly_the_tables_of_the_code(server: PostgreSQL, first: bool) -> None:
    """With their types and comments, which SQLite does not have: one that was made now, and one of version 0.1.0 after
    its migration."""
    url = server.create(f"tables_{first}".lower())
    if first:
        make_first_store(url)
    with Store(url) as store:
        store.migrate()
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "target_metadata": metadata})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_a_table_that_somebody_keeps_locked_fails_the_write_in_time(
    store_url: str, open_store: Callable[..., Store]
) -> None:
    store = open_store(busy_timeout=0.3)
    with closing(psycopg.connect(store_url.replace("+psycopg", ""))) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLE batches IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        with pytest.raises(StoreError, match=r"locked for more than 0\.3 s"):
            store.batches.upsert_progress("flights", report(1))
        assert time.monotonic() - began < 5
    store.batches.upsert_progress("flights", report(1))
    assert store.batches.get("flights", QUERY, 1) is not None


def test_connections_that_were_cut_are_made_anew(server: PostgreSQL, store: Store, store_url: str) -> None:
    """As after a restart of the server, or of what stands between."""
    store.batches.upsert_progress("flights", report(1))
    name = store_url.rpartition("/")[2]
    server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    store.batches.upsert_progress("flights", report(2))
    assert len(store.batches.window("flights")) == 2


# In the first tier processes/test_store_lease_race has what the other racers have in common.
@pytest.mark.parametrize(
    "race", [RACES[0], *(pytest.param(race, marks=pytest.mark.full) for race in RACES[1:])], ids=str
)
def test_fifty_processes_race_for_a_lease_and_one_wins(store_url: str, store: Store, race: dict[str, bool]) -> None:
    with children(RACERS, racer(store_url, **race)) as racers:
        ((winner, token),), losers = run(racers)
        assert token == 1
        assert len(losers) == RACERS - 1
        assert all(f"driver-{winner.pid}" in text for text in losers)
        current = store.leases.current(f"{CHECKPOINT}-{winner.pid}" if "one_checkpoint" in race else CHECKPOINT)
        assert current is not None
        assert current.process == identity(winner.pid)


@pytest.mark.parametrize("skew", [90.0, -7200.0], ids="{0:+.0f} s".format)
def test_hosts_whose_clocks_differ_judge_a_lease_alike(
    store_url: str, open_store: Callable[..., Store], skew: float
) -> None:
    """Each host sees the other one's lease by its own clock; the store's clock stands between."""

    def theirs() -> float:
        return time.time() + skew

    here = open_store(alive=lambda process: None)
    there = Store(store_url, alive=lambda process: None, clock=theirs)
    elsewhere = ProcessIdentity(host="elsewhere/boot/1", pid=7, started_at=1)
    assert here.leases.clock_offset() == 0
    assert there.leases.clock_offset() == pytest.approx(-skew, abs=2)
    lease = here.leases.acquire("/cp", stream="flights", holder="d-1", ttl=30, now=time.time())
    lease = here.leases.bind(lease, elsewhere, ttl=30, now=time.time())
    seen = there.leases.current("/cp")
    assert seen is not None
    assert seen.renewed_at == pytest.approx(theirs(), abs=5)
    assert is_held(seen, now=theirs(), alive=lambda process: None)
    with pytest.raises(LeaseHeld):
        there.leases.acquire("/elsewhere", stream="flights", holder="d-2", ttl=30, now=theirs())
    assert not is_held(seen, now=theirs() + 31, alive=lambda process: None)
    here.leases.release(lease, now=time.time())
    heir = there.leases.bind(
        there.leases.acquire("/cp", stream="flights", holder="d-2", ttl=30, now=theirs()),
        elsewhere,
        ttl=30,
        now=theirs(),
    )
    assert there.leases.renew(heir, ttl=30, now=theirs()).token == 2
    with pytest.raises(LeaseHeld):
        here.leases.acquire("/cp", stream="flights", holder="d-3", ttl=30, now=time.time())
    there.close()


def test_transactions_over_many_claims_in_opposite_orders_never_wait_for_each_other(
    store_url: str, store: Store
) -> None:
    """Two drivers each renew what they have and claim what the other has, again and again: LeaseHeld, and no
    deadlock, which would be a StoreError."""
    names = [f"/cp/{index}" for index in range(6)]
    held = [
        store.leases.acquire(*names[:3], stream="a", holder="a-1", ttl=600, now=0),
        store.leases.acquire(*names[:2:-1], stream="b", holder="b-1", ttl=600, now=0),
    ]

    def struggle(me: int) -> None:
        with Store(store_url, busy_timeout=20) as own:
            for turn in range(40):
                own.leases.renew(held[me], ttl=600, now=turn)
                with pytest.raises(LeaseHeld):
                    own.leases.add(held[me], *(names if me else reversed(names)), ttl=600, now=turn)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(struggle, (0, 1)))
