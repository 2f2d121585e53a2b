"""Which host may start a stream."""

from dataclasses import replace

import pytest

from streamwarden.lifecycle.driver import DriverRecord, ProcessIdentity
from streamwarden.lifecycle.hosts.placement import HostFacts, unfit
from streamwarden.lifecycle.hosts.report import Drain
from streamwarden.lifecycle.supervision.restarter import Supervisor, restarts_elsewhere, supervised

FIT = HostFacts(host="two", storage="b")
ELSEWHERE = replace(FIT, lacks="/data/cp", last_host="one", last_storage="a")
DRAIN = Drain(host="two", requested_by="ann", reason="reboot", requested_at=0.0)


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (FIT, None),
        (replace(FIT, drain=DRAIN), "drained by ann: reboot"),
        (ELSEWHERE, "does not have the checkpoint"),
        (replace(ELSEWHERE, storage=None), "does not have the checkpoint"),
        (replace(ELSEWHERE, lacks=None), None),  # it is here, whatever the folders are called
        (replace(ELSEWHERE, last_storage="b"), None),  # the same storage: it is gone, which the launch check refuses
        (replace(ELSEWHERE, last_storage=None), None),  # nothing is known of the other host
        (replace(ELSEWHERE, last_host="two"), None),  # this host itself had it: gone, too
        (replace(FIT, silent_ago=29.0), "did not answer there"),
        (replace(FIT, silent_ago=30.0), None),
    ],
)
def test_unfit(facts: HostFacts, word: str | None) -> None:
    found = unfit(facts)
    assert (found is None) == (word is None)
    assert word is None or (found is not None and word in found.observed)


def test_a_drained_host_is_left_by_a_command() -> None:
    found = unfit(replace(FIT, drain=DRAIN))
    assert found is not None
    assert "`streamwarden hosts resume two`" in found.next_step


DRIVER = DriverRecord(
    driver_id="d",
    stream="counts",
    checkpoint="/cp",
    token=1,
    folder="/none",
    launched_by="test",
    launched_at=0.0,
    process=ProcessIdentity(host="one/boot/1", pid=7, started_at=1),
)


@pytest.mark.parametrize(
    ("host", "followed_by", "expected"),
    [
        ("one/boot/1", Supervisor.DAG, True),
        ("one/boot/1", Supervisor.SHELL, True),
        ("one/boot/1", None, False),  # nobody starts it again: it is started here
        ("two/boot/1", Supervisor.DAG, False),
    ],
)
def test_a_restart_does_not_move_a_stream_that_another_host_starts_again(
    host: str, followed_by: Supervisor | None, expected: bool
) -> None:
    events = [] if followed_by is None else [supervised("d", followed_by, 1.0)]
    driver = replace(DRIVER, process=ProcessIdentity(host=host, pid=7, started_at=1))
    assert restarts_elsewhere(driver, events, "two/boot/1") is expected
