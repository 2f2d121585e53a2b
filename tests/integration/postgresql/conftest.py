"""The store's own tests, on a real PostgreSQL instead of SQLite: each gets a database of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from streamwarden.adapters.store import Store
from support.oracles.sink_tables import Base
from support.servers.postgres_server import PostgreSQL, running
from support.streams.stores import opener

pytest.register_assert_rewrite(
    "store.test_store_batches",
    "store.test_store_people",
    "store.test_store_repositories",
    "store.test_store_lease",
    "store.test_store_retention",
    "store.test_stored_text",
)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgreSQL]:
    with running() as it:
        with Store(it.create("migrated")) as store:
            store.migrate()
        yield it


@pytest.fixture
def store_url(server: PostgreSQL, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of this test's own migrated, empty database."""
    name = f"test_{id(request.node):x}"
    yield server.create(name, template="migrated")
    server.run(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def open_store(store_url: str) -> Iterator[Callable[..., Store]]:
    """Opens the store of this test, as often as wanted."""
    with opener(store_url) as open_one:
        yield open_one


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()


@pytest.fixture(scope="module")
def sink_base(server: PostgreSQL) -> Iterator[Base]:
    made = Base(server, "sink")
    yield made
    made.drop()


@pytest.fixture
def base(sink_base: Base) -> Base:
    """A database for sinks, empty."""
    sink_base.clear()
    return sink_base
