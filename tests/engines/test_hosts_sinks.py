"""A host is lost or cut off while its stream writes to a topic, or to a table of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from support.hosts.judging import allowed, defects, report, running_on_one
from support.hosts.park import BROKER, DATABASE, STORE, Park, park
from support.hosts.sinks import TableStream, TopicStream
from support.spark.drivers import until

pytestmark = [pytest.mark.full, pytest.mark.spark]


@pytest.fixture
def with_broker() -> Iterator[Park]:
    with park("one", "two", broker=True) as made:
        yield made


@pytest.fixture
def with_database() -> Iterator[Park]:
    with park("one", "two", database=True) as made:
        yield made


@contextmanager
def locked(hosts: Park) -> Iterator[None]:
    """No other session writes into the table meanwhile."""
    url = hosts.database.connection("warehouse")
    session = hosts.network.plugs[DATABASE].call(lambda: psycopg.connect(url))
    try:
        session.execute("LOCK TABLE events IN EXCLUSIVE MODE")
        yield
    finally:
        session.close()


def test_a_host_that_is_cut_off_from_the_store_and_still_reaches_the_broker(with_broker: Park) -> None:
    stream = TopicStream(with_broker)
    with running_on_one(stream):
        with_broker.network.cut("one", STORE)
        stream.await_commits(1, "two")
        until("the driver that is cut off ends", lambda: stream.drivers_on("one") == 0, 30)
        stream.await_commits(2, "two")
    assert defects(stream) == {}


def test_a_host_that_is_cut_off_from_the_broker_loses_the_stream(with_broker: Park) -> None:
    stream = TopicStream(with_broker)
    with running_on_one(stream):
        with_broker.network.cut("one", BROKER)
        took = stream.await_commits(1, "two", timeout=240)
        report(stream, took)
        with_broker.network.heal("one", BROKER)
        stream.await_commits(2, "two")
    assert defects(stream) == {}


def test_a_host_loses_its_power_in_the_middle_of_a_transaction(with_database: Park) -> None:
    """The server of the database is not told: it keeps the session, and with it the lock that the next driver wants."""
    stream = TableStream(with_database)
    with running_on_one(stream):
        with locked(with_database):
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            until("the driver waits in its transaction", lambda: with_database.ask(waiting, DATABASE)[0][0] > 0)
            with_database.hosts["one"].power_off()
        took = stream.await_commits(1, "two", timeout=240)
        report(stream, took)
        stream.await_commits(2, "two")
    assert defects(stream) == {}
    assert took <= allowed(stream)
