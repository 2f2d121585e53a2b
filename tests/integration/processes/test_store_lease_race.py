"""Fifty real processes race for one lease."""

from pathlib import Path

import pytest

from streamwarden.adapters.processes import identity
from streamwarden.adapters.store import Store
from support.children import children
from support.streams.lease_race import CHECKPOINT, RACES, racer, run

RACERS = 50


def test_fifty_processes_race_and_one_wins_and_again_after_it_is_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'streamwarden.db'}"
    store = Store(url)
    store.migrate()
    with children(RACERS, racer(url)) as racers:
        ((winner, token),), losers = run(racers)
        assert token == 1
        assert len(losers) == RACERS - 1
        assert all(f"driver-{winner.pid}" in text for text in losers)

        with children(5, racer(url)) as late:
            winners, losers = run(late)
            assert winners == [], "the first winner still lives"
            assert len(losers) == 5

        winner.kill()
        with children(RACERS, racer(url)) as second:
            ((heir, token),), losers = run(second)
            assert token == 2
            current = store.leases.current(CHECKPOINT)
            assert current is not None
            assert current.process == identity(heir.pid)
    store.close()


@pytest.mark.full  # in the first tier the race above; store/ has what a lease is on
@pytest.mark.parametrize("race", RACES[1:], ids=str)
def test_fifty_processes_that_share_the_name_or_the_checkpoint_alone_have_one_winner(
    tmp_path: Path, race: dict[str, bool]
) -> None:
    url = f"sqlite:///{tmp_path / 'streamwarden.db'}"
    with Store(url) as store:
        store.migrate()
    with children(RACERS, racer(url, **race)) as racers:
        ((winner, token),), losers = run(racers)
    assert token == 1
    assert len(losers) == RACERS - 1
    assert all(f"driver-{winner.pid}" in text for text in losers)
