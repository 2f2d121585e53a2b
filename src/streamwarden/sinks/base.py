"""What each kind of sink says about itself; `sinks.KINDS` lists the kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from streamwarden.lifecycle.forks.places import Places
from streamwarden.problems import Problem, show
from streamwarden.stream import OutputMode, SinkSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink(SinkSpec, ABC):
    """A sink whose declaration says what is written."""

    DECLARED: ClassVar[bool] = True

    @abstractmethod
    def problems(self) -> Iterable[Problem]:
        """What is wrong with the declaration, beyond the types of its keys."""

    @abstractmethod
    def forked(self, places: Places) -> Sink:
        """The sink as a fork writes it."""

    def located(self, locate: Callable[[str], str]) -> Sink:
        """The sink with its paths resolved by `locate`."""
        return self


def repeated(key: tuple[str, ...]) -> Iterator[Problem]:
    """A key has each column once."""
    if len(set(key)) < len(key):
        yield Problem(key=("sink", "key"), observed=show(list(key)), allowed="each column once")


def missing_key(allowed: str) -> Problem:
    """The sink needs a key and has none."""
    return Problem(key=("sink", "key"), observed="missing", allowed=allowed, next_step="add `key: […]`")


def refused_mode(mode: OutputMode, allowed: str) -> Problem:
    """The sink cannot be written in this output mode."""
    return Problem(key=("sink", "mode"), observed=show(str(mode)), allowed=allowed)
