"""Tests that feed generated input to a parser: how many inputs they try, and the bounds that each input must keep."""

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

EXAMPLES: Final = {"quick": 30, "nightly": 10_000}
"""Inputs of each test by the profile of Hypothesis; every other profile tries 100."""

LONGEST: Final = 5.0
"""Seconds of processor time that a parser may need for one input."""

MOST_MEMORY: Final = 200 * 10**6
"""Bytes that a parser may allocate for one input."""


def generated_input(test: Callable[..., None]) -> Callable[..., None]:
    """Marks a test with `@given`: `make test-full` runs it with 10,000 inputs, those of the first tier with 100."""
    examples = EXAMPLES.get(settings.get_current_profile_name(), 100)
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    chosen = settings(max_examples=examples, deadline=None, suppress_health_check=slow)
    return pytest.mark.generated(chosen(test))


class _TooLong(BaseException):
    """Not an Exception: a parser that catches every Exception must not catch this."""


@contextmanager
def bounded(seconds: float = LONGEST, memory: int = MOST_MEMORY) -> Iterator[None]:
    """Fails the test if the block uses more processor time or memory.

    The kernel refuses memory beyond the bound, so the block raises MemoryError; processor time does not depend on what
    else the machine does.
    """

    def end(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, end)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + memory, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    except _TooLong:
        raise AssertionError(f"the block did not end within {seconds:g} s of processor time") from None
    except MemoryError as error:
        raise AssertionError(f"the block needs more than {memory} bytes of memory") from error
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
