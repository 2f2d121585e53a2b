"""What a host that is gone leaves in the store: sessions of which nobody has told the server that they are over."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from support.hosts.park import Park, park

pytestmark = pytest.mark.full

RELEASED_WITHIN = 20.0
"""Seconds: a lease lasts 30, and its takeover must not wait for a lock of the dead."""

HOLD = """
import sys, time
from streamwarden.adapters.store import Store

store = Store(sys.argv[1])
store.migrate()
store.leases.acquire("/checkpoint", stream="events", holder="driver-one", ttl=30.0, now=time.time())

def stay(connection):
    connection.exec_driver_sql("SELECT * FROM leases FOR UPDATE")
    print("locked", flush=True)
    time.sleep(600)

store._database.write(stay)
"""

TAKE = """
import sys, time
from streamwarden.adapters.store import Store

Store(sys.argv[1])._database.write(lambda connection: connection.exec_driver_sql("SELECT * FROM leases FOR UPDATE"))
"""


@pytest.fixture
def hosts() -> Iterator[Park]:
    with park("one", "two") as made:
        yield made


def test_a_lock_of_a_host_without_power_is_released(hosts: Park) -> None:
    one, two = hosts.hosts["one"], hosts.hosts["two"]
    outer = one.start([sys.executable, "-c", HOLD, hosts.store_url], stdout=subprocess.PIPE)
    assert outer.stdout is not None
    assert outer.stdout.readline()
    take = [sys.executable, "-c", TAKE, hosts.store_url]
    assert two.run(take).returncode != 0  # the lock is there
    one.power_off()
    began = time.monotonic()
    while (done := two.run(take)).returncode != 0:
        assert time.monotonic() - began < RELEASED_WITHIN, done.stderr
    print(f"released after {time.monotonic() - began:.1f} s")
