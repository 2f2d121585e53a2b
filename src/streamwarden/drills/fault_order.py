"""In which order the faults of a drill strike, how many batches are committed before each, and when in a batch it
strikes. Drawn once, when a run begins: its journal keeps it, so that the run can be repeated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal, Self

LONGEST_PAUSE: Final = 2
"""Most batches that are committed between the recovery from a fault and the next strike of a drill with a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The strikes of one run, as they were drawn.

    Args:
        seed: what they were drawn from; a fault that draws something itself draws it from this number too.
        order: positions of the faults in the drill's file, in the order in which they strike.
        pauses: batches that are committed before each strike, in the same order.
        shares: for each strike an instant of a batch, from 0 to 1, if the fault names none: see
            `faults.driver.batch_instants`.
    """

    seed: int = 0
    order: tuple[int, ...] = (0,)
    pauses: tuple[int, ...] = (0,)
    shares: tuple[float, ...] = ()

    def shortened(self, strikes: int) -> Self:
        """The plan with that many strikes. Those that come earliest in a batch are left out: what the sink has written
        is not there yet, so that they prove least."""
        if strikes >= len(self.order):
            return self
        latest = sorted(range(len(self.order)), key=lambda number: -self.shares[number])[:strikes]
        left = sorted(latest)
        return replace(
            self,
            order=tuple(self.order[number] for number in left),
            pauses=tuple(self.pauses[number] for number in left),
            shares=tuple(self.shares[number] for number in left),
        )


def draw(times: Sequence[int], seed: int | Literal["new"] | None, fresh: Callable[[], int]) -> Plan:
    """The plan of a run. Pure, but for `fresh`, which gives the seed of a run that asks for a new one. The instants are
    new ones in each run without a seed, too.

    Args:
        times: how often each fault of the file strikes.
    """
    order = [fault for fault, count in enumerate(times) for _ in range(count)]
    drawn = seed if isinstance(seed, int) else fresh()
    random = Random(drawn)  # noqa: S311  # no secret; a replay has to draw the same
    if seed is None:
        return Plan(order=tuple(order), pauses=(0,) * len(order), shares=_stratified(len(order), random))
    random.shuffle(order)
    pauses = tuple(random.randint(0, LONGEST_PAUSE) for _ in order)
    return Plan(seed=drawn, order=tuple(order), pauses=pauses, shares=_stratified(len(order), random))


def _stratified(count: int, random: Random) -> tuple[float, ...]:
    """One number in each of `count` equal parts of the range from 0 to 1, in a random order."""
    shares = [(part + random.random()) / count for part in range(count)]
    random.shuffle(shares)
    return tuple(shares)
