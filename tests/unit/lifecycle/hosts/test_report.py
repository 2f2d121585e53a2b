"""The state of a host follows from its newest report, its drain and its drivers."""

import pytest

from streamwarden.lifecycle.hosts.report import SILENT_AFTER, Drain, HostReport, HostState, host_name, state_of

NOW = 1000.0
DRAIN = Drain(host="one", requested_by="ann", reason="reboot", requested_at=NOW)


def report(ago: float) -> HostReport:
    return HostReport(
        name="one",
        identity="one/boot/1",
        started_at=0.0,
        heartbeat_at=NOW - ago,
        cores=2,
        memory_bytes=8,
        available_bytes=4,
        data="/data",
        storage="s",
        versions={},
    )


@pytest.mark.parametrize(
    ("ago", "drain", "drivers", "expected"),
    [
        (1.0, None, 0, HostState.READY),
        (SILENT_AFTER, None, 3, HostState.READY),
        (SILENT_AFTER + 0.1, None, 3, HostState.SILENT),
        (SILENT_AFTER + 0.1, DRAIN, 0, HostState.SILENT),
        (1.0, DRAIN, 2, HostState.DRAINING),
        (1.0, DRAIN, 0, HostState.DRAINED),
        (None, DRAIN, 1, HostState.DRAINING),
        (None, None, 1, HostState.UNKNOWN),
        (-5.0, None, 0, HostState.READY),
    ],
)
def test_state(ago: float | None, drain: Drain | None, drivers: int, expected: HostState) -> None:
    given = None if ago is None else report(ago)
    assert state_of(given, drain, drivers=drivers, now=NOW) is expected


def test_the_name_is_what_people_call_a_host() -> None:
    assert host_name("node-1.example/4f0c/4026531836") == "node-1.example"
