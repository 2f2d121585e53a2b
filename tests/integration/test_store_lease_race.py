"""Fifty real processes race for one lease."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from streamwarden.adapters.processes import identity
from streamwarden.adapters.store import Store
from streamwarden.errors import LeaseHeld
from support.children import Child, Line, children

RACERS = 50
CHECKPOINT = "/data/checkpoints/flights"


def racer(path: Path) -> Callable[[Line], None]:
    """Waits for the start, claims, names itself, tells its token (None for a loser), and lives on until killed."""

    def race(line: Line) -> None:
        store = Store(f"sqlite:///{path}", busy_timeout=20)
        me = identity(os.getpid())
        assert me is not None
        line.say("ready")
        line.wait()
        try:
            lease = store.leases.acquire(
                CHECKPOINT, stream="flights", holder=f"driver-{os.getpid()}", ttl=600, now=time.time()
            )
            store.leases.bind(lease, me, ttl=600, now=time.time())
        except LeaseHeld as held:
            line.say((None, str(held)))
        else:
            line.say((lease.token, ""))
        line.wait()

    return race


def run(racers: list[Child]) -> tuple[list[tuple[Child, int]], list[str]]:
    """(winners with their tokens, what the losers were told)"""
    for child in racers:
        assert child.hear() == "ready"
    for child in racers:
        child.tell("go")
    told = [(child, *child.hear()) for child in racers]
    return [(child, token) for child, token, _ in told if token is not None], [text for *_, text in told if text]


def test_fifty_processes_race_and_one_wins_and_again_after_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "streamwarden.db"
    store = Store(f"sqlite:///{path}")
    store.migrate()
    with children(RACERS, racer(path)) as racers:
        ((winner, token),), losers = run(racers)
        assert token == 1
        assert len(losers) == RACERS - 1
        assert all(f"driver-{winner.pid}" in text for text in losers)

        with children(5, racer(path)) as late:
            winners, losers = run(late)
            assert winners == [], "the first winner still lives"
            assert len(losers) == 5

        winner.kill()
        with children(RACERS, racer(path)) as second:
            ((heir, token),), losers = run(second)
            assert token == 2
            current = store.leases.current(CHECKPOINT)
            assert current is not None
            assert current.process == identity(heir.pid)
    store.close()
