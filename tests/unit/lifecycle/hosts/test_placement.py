"""Which host may start a stream."""

from dataclasses import replace

import pytest

from streamwarden.lifecycle.hosts.placement import HostFacts, unfit
from streamwarden.lifecycle.hosts.report import Drain

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
