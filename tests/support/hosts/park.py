"""Hosts for a test, and what they share: a network, PostgreSQL as the store, a folder, and other servers if they are
wanted.

The store and the broker run on hosts of their own as far as the network goes: a host can be cut off from either.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from streamwarden.adapters.jvm import maven
from support.hosts.host import Host
from support.hosts.network import Network, Plug, network
from support.hosts.network import require as require_network
from support.hosts.share import Share
from support.hosts.share import require as require_share
from support.servers import kafka_broker, object_store, postgres_server
from support.servers.kafka_broker import Broker
from support.servers.object_store import ObjectStore
from support.servers.postgres_server import PostgreSQL

STORE: Final = "store"
BROKER: Final = "broker"
DATABASE: Final = "database"
LAKE: Final = "lake"
"""Names of the hosts of the services: the store, a broker, a database for output, and an object store."""


class Park:
    """Hosts by name, all on, and their services.

    Args:
        folder: holds the shared folder and the hosts' own disks.
    """

    def __init__(self, folder: Path, net: Network, stack: ExitStack) -> None:
        self.network, self.shared = net, folder / "shared"
        self.hosts: dict[str, Host] = {}
        self.shares: dict[str, Share] = {}
        self._folder, self._stack = folder, stack
        self.shared.mkdir()

    def serve_store(self) -> None:
        """PostgreSQL with an empty database for the store."""
        self.store = self._serve_postgresql(STORE, "streamwarden")

    def serve_database(self) -> None:
        """Another PostgreSQL, with an empty database for output."""
        self.database = self._serve_postgresql(DATABASE, "warehouse")

    def _serve_postgresql(self, name: str, database: str) -> PostgreSQL:
        plug = self.network.plug(name)
        server: PostgreSQL = self._serve(plug, postgres_server.running(plug.address))
        plug.call(lambda: server.create(database))
        return server

    def serve_broker(self) -> None:
        """A Kafka broker."""
        plug = self.network.plug(BROKER)
        self.broker: Broker = self._serve(plug, kafka_broker.broker(address=plug.address))

    def serve_lake(self) -> None:
        """An object store."""
        maven.resolve(maven.POMS / "s3.xml")  # nothing can be downloaded from inside
        plug = self.network.plug(LAKE)
        self.lake: ObjectStore = self._serve(plug, object_store.running(jars=False, address=plug.address))

    def add(self, *names: str) -> None:
        """Plug hosts in, boot them, and mount the shared folder on each."""
        plugs = [self.network.plug(name) for name in names]
        hosts = self._folder / "hosts"
        lines = ["127.0.0.1 localhost", *(f"{plug.address} {plug.name}" for plug in self.network.plugs.values())]
        hosts.write_text("\n".join(lines) + "\n")
        for plug in plugs:
            host = self.hosts[plug.name] = Host(
                plug, self.network, self._folder / f"disk-{plug.name}", self.shared, hosts
            )
            self._stack.callback(host.power_off)
            self.power_on(plug.name)

    def power_on(self, name: str) -> None:
        """Boot a host and mount the shared folder."""
        self.hosts[name].power_on()
        self.shares[name] = self.hosts[name].mount()

    @property
    def store_url(self) -> str:
        """The store, as every host reaches it."""
        return self.store.url("streamwarden")

    def ask(self, statement: str, of: str = STORE) -> list[Any]:
        """The rows of a query to the store or the database, asked from its own host: no cut keeps them away."""
        url = self.store_url if of == STORE else self.database.url("warehouse")

        def answer() -> list[Any]:
            engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                result = connection.exec_driver_sql(statement)
                return list(result) if result.returns_rows else []

        return self.network.plugs[of].call(answer)

    def at_broker(self, function: Callable[[Broker], Any]) -> Any:
        """What `function` returns of the broker, asked from its own host."""
        return self.network.plugs[BROKER].call(lambda: function(self.broker))

    def at_lake(self, function: Callable[[ObjectStore], Any]) -> Any:
        """What `function` returns of the object store, asked from its own host."""
        return self.network.plugs[LAKE].call(lambda: function(self.lake))

    def _serve(self, plug: Plug, context: Any) -> Any:
        """Enter a context of which every process and connection belongs to the host of `plug`."""
        served = plug.call(context.__enter__)
        self._stack.callback(plug.call, lambda: context.__exit__(None, None, None))
        return served


@contextmanager
def park(*names: str, broker: bool = False, database: bool = False, lake: bool = False) -> Iterator[Park]:
    """Hosts with these names, a store and, if they are wanted, a broker, a database for output and an object store. At
    the end all is off and removed. Skips the test where they cannot be had."""
    require_network()
    require_share()
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-hosts-"))
    try:
        with ExitStack() as stack:
            made = Park(folder, stack.enter_context(network()), stack)
            made.serve_store()
            if broker:
                made.serve_broker()
            if database:
                made.serve_database()
            if lake:
                made.serve_lake()
            made.add(*names)
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)
