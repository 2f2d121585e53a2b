"""Hosts that share an object store and no folder: one of them loses its power, or is cut off, and never do two write.

An object store refuses no second writer by itself: it has no rename that fails, and a file that is written again
replaces the first one. So it is the fence alone that keeps a driver out that is cut off from the store.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from support.hosts.judging import all_report, allowed, defects, report, running_on_one
from support.hosts.lakes import LakeStream
from support.hosts.park import LAKE, STORE, Park, park
from support.spark.drivers import until

pytestmark = [pytest.mark.full, pytest.mark.spark]


@pytest.fixture
def hosts() -> Iterator[Park]:
    with park("one", "two", lake=True) as made:
        yield made


def test_a_host_loses_its_power(hosts: Park) -> None:
    stream = LakeStream(hosts)
    with running_on_one(stream):
        hosts.hosts["one"].power_off()
        took = stream.await_commits(1, "two")
        report(stream, took)
        stream.await_commits(2, "two")
    assert defects(stream) == {}
    assert took <= allowed(stream)


def test_a_host_that_is_cut_off_from_the_store_is_fenced_in_the_object_store(hosts: Park) -> None:
    stream = LakeStream(hosts)
    with running_on_one(stream):
        hosts.network.cut("one", STORE)
        began = time.monotonic()
        stream.await_commits(3, "one")  # an outage of the store stops no stream
        stream.await_commits(1, "two")
        took = time.monotonic() - began
        report(stream, took)
        until("the driver that is cut off ends", lambda: stream.drivers_on("one") == 0, 30)
        stream.await_commits(2, "two")
    assert defects(stream) == {}
    assert took <= allowed(stream)


def test_a_host_that_is_cut_off_from_the_object_store_loses_the_stream(hosts: Park) -> None:
    stream = LakeStream(hosts)
    with running_on_one(stream):
        all_report(stream)
        hosts.network.cut("one", LAKE)
        took = stream.await_commits(1, "two", timeout=400)
        report(stream, took)
        hosts.network.heal("one", LAKE)
        stream.await_commits(2, "two")
    assert defects(stream) == {}
    assert took <= allowed(stream)
