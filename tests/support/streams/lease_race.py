"""Real processes that race for one lease."""

import os
import time
from collections.abc import Callable

from streamwarden.adapters.processes import identity
from streamwarden.adapters.store import Store
from streamwarden.errors import LeaseHeld
from support.children import Child, Line

CHECKPOINT = "/data/checkpoints/flights"
RACES = ({}, {"one_checkpoint": False}, {"one_name": False})
"""What racers may have in common: name and checkpoint, the name alone, the checkpoint alone."""


def racer(url: str, *, one_name: bool = True, one_checkpoint: bool = True) -> Callable[[Line], None]:
    """Waits for the start, claims, names itself, tells its token (None for a loser), and lives on until killed.

    Args:
        one_name: all racers claim the same stream, else each another one.
        one_checkpoint: all racers claim the same checkpoint, else each another one.
    """

    def race(line: Line) -> None:
        with Store(url, busy_timeout=60) as store:
            me = identity(os.getpid())
            assert me is not None
            stream = "flights" if one_name else f"flights-{me.pid}"
            checkpoint = CHECKPOINT if one_checkpoint else f"{CHECKPOINT}-{me.pid}"
            line.say("ready")
            line.wait()
            try:
                lease = store.leases.acquire(
                    checkpoint, stream=stream, holder=f"driver-{os.getpid()}", ttl=600, now=time.time()
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
