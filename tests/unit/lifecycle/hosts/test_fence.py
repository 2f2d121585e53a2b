"""When a new driver has to fence an old one off, and whom a fence keeps out."""

from dataclasses import replace

import pytest

from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.hosts.fence import (
    LOOK_EVERY,
    SETTLES,
    SUSPECT_AFTER,
    Fence,
    fence_of,
    keeps_out,
    must_fence,
)
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.spark.driver.store_link import RENEW_EVERY

HERE, THERE = "two/boot/1", "one/boot/1"
OLD = DriverRecord(
    driver_id="old",
    stream="counts",
    checkpoint="/cp",
    token=4,
    folder="/none",
    launched_by="test",
    launched_at=0.0,
    process=ProcessIdentity(host=THERE, pid=7, started_at=1),
)
VANISHED = ExitRecord(kind=ExitKind.KILLED, ended_at=9.0)
FENCE = Fence(token=5, holder="new", host="two", at=0.0)


@pytest.mark.parametrize(
    ("previous", "expected"),
    [
        (None, False),
        (replace(OLD, process=None), False),
        (OLD, True),
        (replace(OLD, exit=VANISHED), True),
        (replace(OLD, exit=replace(VANISHED, signal=9)), False),  # its supervisor process saw it
        (replace(OLD, exit=replace(VANISHED, exit_code=137)), False),
        (replace(OLD, exit=replace(VANISHED, kind=ExitKind.STOPPED)), False),
        (replace(OLD, exit=VANISHED, process=ProcessIdentity(host=HERE, pid=7, started_at=1)), False),
        (replace(OLD, exit=VANISHED, process=ProcessIdentity(host="two/other/1", pid=7, started_at=1)), True),
    ],
)
def test_must_fence(previous: DriverRecord | None, expected: bool) -> None:
    assert must_fence(previous, HERE) is expected


@pytest.mark.parametrize(
    ("fence", "holder", "token", "expected"),
    [
        (FENCE, "old", 4, True),
        (FENCE, "new", 5, False),
        (FENCE, "newer", 6, False),  # left by an earlier takeover
        (replace(FENCE, holder="old", token=4), "old", 4, False),  # its own
        (None, "old", 4, False),
    ],
)
def test_keeps_out(fence: Fence | None, holder: str, token: int, expected: bool) -> None:
    assert keeps_out(fence, holder=holder, token=token) is expected


def test_a_fence_is_beside_its_checkpoint() -> None:
    assert fence_of("/data/cp/") == "/data/cp.fence.json"
    assert fence_of("s3a://bucket/cp") == "s3a://bucket/cp.fence.json"


def test_a_driver_looks_before_another_one_may_start() -> None:
    """It suspects a takeover long before its lease expires, and a healthy one never does."""
    assert RENEW_EVERY < SUSPECT_AFTER < LEASE_TTL
    assert SETTLES > 2 * LOOK_EVERY
