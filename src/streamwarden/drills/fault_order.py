"""In which order the faults of a drill strike, and how many batches are committed before each. Drawn once, when a run
begins: its journal keeps it, so that the run can be repeated."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

LONGEST_PAUSE: Final = 2
"""Most batches that are committed between the recovery from a fault and the next strike of a drill with a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The faults of one run, as they were drawn.

    Args:
        seed: what they were drawn from; a fault that draws something itself draws it from this number too.
        order: positions in the drill's file, in the order in which the faults strike.
        pauses: batches that are committed before each of them, in the same order.
    """

    seed: int = 0
    order: tuple[int, ...] = (0,)
    pauses: tuple[int, ...] = (0,)


def draw(count: int, seed: int | Literal["new"] | None, fresh: Callable[[], int]) -> Plan:
    """The plan of a run with `count` faults. Pure, but for `fresh`, which gives the seed of a run that asks for a new
    one."""
    order = list(range(count))
    if seed is None:
        return Plan(order=tuple(order), pauses=(0,) * count)
    drawn = fresh() if seed == "new" else seed
    random = Random(drawn)  # noqa: S311  # no secret; a replay has to draw the same
    random.shuffle(order)
    return Plan(seed=drawn, order=tuple(order), pauses=tuple(random.randint(0, LONGEST_PAUSE) for _ in order))
