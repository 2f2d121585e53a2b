"""Several queries are stopped at the same time, each at its own boundary, and Spark not before the last of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.spark import control as module
from streamwarden.spark.control import Control
from streamwarden.spark.graceful import Stop
from streamwarden.stream import StreamSpec
from support.drivers import until

ENOUGH = 20.0
"""Seconds after which a thread that still waits has failed the test."""


class Query:
    """A query that reaches its boundary when it is let."""

    def __init__(self) -> None:
        self.boundary = threading.Event()
        self.asked = threading.Event()
        self.active = True


class Queries:
    """The active ones, as the sessions know them."""

    def __init__(self, *queries: Query) -> None:
        self._queries = queries

    def active_queries(self) -> list[Query]:
        return [query for query in self._queries if query.active]


def stop(query: Query, give_up: Callable[[], bool]) -> Stop:
    query.asked.set()
    while not query.boundary.wait(0.01):
        if give_up():
            return Stop.GIVEN_UP
    query.active = False
    return Stop.AT_BOUNDARY


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> tuple[Query, Query]:
    monkeypatch.setattr(module, "stop_at_boundary", stop)
    return Query(), Query()


def control_of(pair: tuple[Query, Query], folder: Path) -> Control:
    spec = StreamSpec(name="pair", job="/j.py", checkpoint="/cp")
    others: Any = None
    sessions: Any = Queries(*pair)
    jvm = ProcessIdentity("h", 1, 1)
    return Control(spec, folder, link=others, sessions=sessions, roster=others, jvm=jvm, finish=lambda: None)


def test_a_query_with_a_long_batch_holds_up_no_other_and_spark_waits_for_it(
    pair: tuple[Query, Query], tmp_path: Path
) -> None:
    control = control_of(pair, tmp_path)
    long, short = pair
    ends: list[bool] = []
    stopping = threading.Thread(target=lambda: ends.append(control._all_at_boundary(lambda: False)), daemon=True)
    stopping.start()
    assert all(query.asked.wait(ENOUGH) for query in pair), "both are asked before one has ended"
    short.boundary.set()
    until("the end of the short one", lambda: not short.active, ENOUGH)
    script = threading.Thread(target=control.await_boundaries, daemon=True)  # it saw that one end, and stops Spark
    script.start()
    script.join(0.2)
    assert script.is_alive()
    long.boundary.set()
    script.join(ENOUGH)
    stopping.join(ENOUGH)
    assert (script.is_alive(), ends) == (False, [True])


def test_where_it_is_given_up_spark_waits_no_longer(pair: tuple[Query, Query], tmp_path: Path) -> None:
    control = control_of(pair, tmp_path)
    assert control._all_at_boundary(lambda: True) is False
    control.await_boundaries()


def test_a_script_that_stops_spark_by_itself_waits_for_nothing(pair: tuple[Query, Query], tmp_path: Path) -> None:
    control_of(pair, tmp_path).await_boundaries()
