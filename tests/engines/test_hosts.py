"""Streams on several hosts: one of them loses its power, its network or its storage, and never do two write.

Each host is a set of namespaces with its own mount of the shared folder, by which the owner of a file outside says
which host wrote it. That, and the ids of the events, judge a run; neither is the word of the product itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hosts.events import NAME
from support.hosts.judging import all_report, allowed, await_all, defects, report, running_on_one
from support.hosts.park import STORE, Park, park
from support.hosts.streams import HostedStream
from support.spark.drivers import until

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(1200)]

UNFENCED = """

import os
from pathlib import Path

from streamwarden.spark.watches.fence import FenceWatch

FenceWatch.turn = lambda self: False
temporary = Path(os.environ["STREAMWARDEN_FOLDER"], "tmp")
temporary.symlink_to(temporary.rename(temporary.with_name("kept")))
"""
"""At the end of a job: its driver looks for no fence, and keeps its temporary files. The start of the next driver
removes those of one that has lost its lease, but follows no link."""


@pytest.fixture
def hosts() -> Iterator[Park]:
    with park("one", "two") as made:
        yield made


def test_a_host_loses_its_power_and_another_one_runs_the_stream_within_a_minute(hosts: Park) -> None:
    stream = HostedStream(hosts)
    with running_on_one(stream):
        assert stream.secrets_on("one")
        hosts.hosts["one"].power_off()
        took = stream.await_commits(1, "two")
        report(stream, took)
        assert stream.secrets_on("one") == []  # nobody is left there to remove them
        hosts.power_on("one")
        stream.supervise("one")
        stream.await_commits(2, "two")
    assert defects(stream) == {}
    stream.call("two", "audit", NAME, "--share", "1", timeout=900)  # the product's own books, at a low priority
    assert took <= allowed(stream)
    assert (stream.drivers_on("one"), stream.drivers_on("two")) == (0, 1)


def test_a_host_that_is_cut_off_from_the_store_goes_on_until_another_one_takes_over(hosts: Park) -> None:
    stream = HostedStream(hosts)
    with running_on_one(stream):
        hosts.network.cut("one", STORE)
        began = time.monotonic()
        stream.await_commits(5, "one")  # an outage of the store stops no stream
        stream.await_commits(1, "two")
        took = time.monotonic() - began
        report(stream, took)
        until("the driver that is cut off ends", lambda: stream.drivers_on("one") == 0, 30)
        hosts.network.heal("one", STORE)
        stream.await_commits(3, "two")
    assert defects(stream) == {}
    assert took <= allowed(stream)
    assert (stream.drivers_on("one"), stream.drivers_on("two")) == (0, 1)


def test_a_host_whose_storage_hangs_loses_the_stream(hosts: Park) -> None:
    stream = HostedStream(hosts)
    with running_on_one(stream):
        all_report(stream)
        hosts.shares["one"].hang()
        took = stream.await_commits(1, "two", timeout=150)
        report(stream, took)
        hosts.shares["one"].heal()
        stream.await_commits(3, "two")
        until("the old driver ends", lambda: stream.drivers_on("one") == 0, 30)
    assert defects(stream, woke=True) == {}
    assert took <= allowed(stream)


def test_a_storage_that_hangs_on_every_host_is_waited_for(hosts: Park) -> None:
    """As while a server of files restarts. A start on another host would help nobody."""
    stream = HostedStream(hosts)
    asked = "SELECT count(*) FROM driver_events WHERE kind = 'storage_silent' AND at < extract(epoch FROM now()) - 20"
    with running_on_one(stream):
        all_report(stream)
        for share_of in hosts.shares.values():
            share_of.hang()
        until("the driver has got no answer of another host for 20 s", lambda: hosts.ask(asked) == [(1,)], 90)
        for share_of in hosts.shares.values():
            share_of.heal()
        stream.await_commits(2, "one")
    assert defects(stream) == {}
    assert hosts.ask("SELECT count(*) FROM drivers") == [(1,)]


def test_a_host_that_reaches_neither_the_store_nor_the_storage_loses_the_stream(hosts: Park) -> None:
    stream = HostedStream(hosts)
    with running_on_one(stream):
        hosts.network.unplug("one")
        hosts.shares["one"].hang()
        took = stream.await_commits(1, "two")
        report(stream, took)
        hosts.shares["one"].heal()
        hosts.network.replug("one")
        stream.await_commits(3, "two")
        until("the old driver ends", lambda: stream.drivers_on("one") == 0, 30)
    assert defects(stream, woke=True) == {}
    assert took <= allowed(stream)


def test_a_host_that_stands_still_and_comes_back_is_fenced(hosts: Park) -> None:
    stream = HostedStream(hosts)
    with running_on_one(stream):
        frozen = hosts.hosts["one"].freeze()
        took = stream.await_commits(1, "two")
        report(stream, took)
        hosts.hosts["one"].thaw(frozen)
        stream.await_commits(3, "two")
        until("the old driver ends", lambda: stream.drivers_on("one") == 0, 30)
    assert defects(stream, woke=True) == {}
    assert took <= allowed(stream)


def test_a_host_whose_clock_is_two_minutes_ahead_takes_over_from_the_dead_alone(hosts: Park) -> None:
    """By its clock each lease has expired long ago."""
    stream = HostedStream(hosts)
    package = Path(pytest.importorskip("libfaketime").__file__).parent
    library = str(package / "vendor/libfaketime/src/libfaketime.so.1")
    ahead = {"LD_PRELOAD": library, "FAKETIME": "+120s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    assert int(hosts.hosts["two"].run(["date", "+%s"], env=ahead).stdout) > time.time() + 60
    with running_on_one(stream, **ahead):
        stream.await_commits(15, "one")
        assert stream.drivers_on("two") == 0
        hosts.hosts["one"].power_off()
        took = stream.await_commits(1, "two")
        report(stream, took)
    assert defects(stream) == {}
    assert took <= allowed(stream)


def test_the_drain_of_a_host_moves_its_stream_at_a_batch_boundary(hosts: Park) -> None:
    stream = HostedStream(hosts)
    with running_on_one(stream):
        all_report(stream)
        began = time.monotonic()
        stream.call("two", "hosts", "drain", "one", "--reason", "kernel update")
        stream.await_commits(1, "two")
        print(f"moved in {time.monotonic() - began:.1f} s")
        stream.await_commits(2, "two")
    assert defects(stream) == {}
    ended = hosts.ask(f"SELECT exit FROM drivers WHERE stream = '{NAME}' ORDER BY launched_at LIMIT 1")
    assert "stopped" in str(ended)
    assert (stream.drivers_on("one"), stream.drivers_on("two")) == (0, 1)


def test_without_the_fence_the_judge_sees_two_writers(hosts: Park) -> None:
    """The negative control: a driver that is cut off from the store, and looks for no fence. Spark's own check lets one
    of two drivers plan a batch, and ends the other one. So there is no input while the one that has the lease starts,
    and then it stands still, until the other one has committed."""
    stream = HostedStream(hosts, job_says=UNFENCED)
    runs = "SELECT count(*) FROM drivers WHERE host LIKE 'two/%%' AND started_at IS NOT NULL"
    with running_on_one(stream):
        pass
    await_all(stream)
    hosts.network.cut("one", STORE)
    cut_at = time.time()
    until("two runs the stream", lambda: hosts.ask(runs) == [(1,)], 120)
    hosts.hosts["two"].freeze()
    stream.events.publish()
    second = until(
        "one commits beside two",
        stream.beside,
        60,
        told=lambda: f"{stream.timeline(cut_at)}\n{stream.said('one')[-3000:]}",
    )
    assert {file.host for file in second} == {"one"}
