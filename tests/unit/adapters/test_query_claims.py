"""The checkpoints of declared queries are claimed before the driver is launched."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.adapters.store import Store
from streamwarden.errors import LeaseHeld
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.stream.spec import StreamSpec


def test_a_query_whose_checkpoint_another_stream_writes_to_keeps_its_stream_from_being_started(
    tmp_path: Path, store_url: str
) -> None:
    mine = processes.identity(os.getpid())
    assert mine is not None
    with Store(store_url) as store:
        now = time.time()
        claim = store.leases.acquire("/cp/left", stream="other", holder="other-1", ttl=30, now=now)
        store.leases.bind(claim, mine, ttl=30, now=now)
        spec = StreamSpec(name="pair", job="/j.py", checkpoint="/cp", queries={"left": "/cp/left", "right": None})
        with pytest.raises(LeaseHeld, match="other-1 of the stream other"):
            Fleet(store, tmp_path).start(spec, launched_by="test")
        assert store.drivers.latest("pair") is None
