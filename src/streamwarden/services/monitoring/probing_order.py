"""In which threads an evaluation probes its streams."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Final, TypeVar

from streamwarden.health.signals.services import needs_network
from streamwarden.stream.spec import StreamSpec

T = TypeVar("T")

PATIENCE: Final = 20.0
"""Seconds that the streams of one evaluation wait for the disks of this host one after the other."""
_THREADS: Final = 16
"""Streams that are probed at the same time, so that one with a slow storage or broker delays few others."""


class ProbingOrder:
    """Probes streams of this host's disks one after the other, and those that need the network in threads meanwhile.

    A probe of a disk is hundreds of short system calls, and after each of them a thread waits for Python's lock: with
    16 threads an evaluation took 1.3 to 1.8 times the processor time. If the disks are slow, because a folder is
    mounted from elsewhere, the other streams are probed in threads too once `patience` is used up.

    Args:
        patience: seconds; one object serves one evaluation.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._left = patience

    def each(self, specs: Sequence[StreamSpec], probe: Callable[[StreamSpec], T]) -> list[T]:
        """What `probe` returns for each of `specs`, in their order. A single one needs no thread."""
        if len(specs) == 1:
            return [probe(specs[0])]
        with ThreadPoolExecutor(_THREADS) as pool:
            far = {spec.name: pool.submit(probe, spec) for spec in specs if needs_network(spec)}
            begun = [far.get(spec.name) or self._begin(pool, spec, probe) for spec in specs]
            return [one.result() for one in begun]

    def _begin(self, pool: Executor, spec: StreamSpec, probe: Callable[[StreamSpec], T]) -> "Future[T]":
        if self._left <= 0:
            return pool.submit(probe, spec)
        began = time.perf_counter() - time.thread_time()
        future: Future[T] = Future()
        future.set_result(probe(spec))
        self._left -= time.perf_counter() - time.thread_time() - began
        return future
