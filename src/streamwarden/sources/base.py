"""What each kind of source says about itself; `sources.KINDS` lists the kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.problems import Problem, show
from streamwarden.stream import SourceSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(SourceSpec, ABC):
    """A source whose declaration says what is read."""

    DECLARED: ClassVar[bool] = True
    FORKABLE: ClassVar[bool] = False
    """Whether a fork can read the input, or a copy of it, without an effect on the original."""

    @abstractmethod
    def problems(self) -> Iterable[Problem]:
        """What is wrong with the declaration, beyond the types of its keys."""

    def located(self, locate: Callable[[str], str]) -> Source:
        """The source with its paths resolved by `locate`."""
        return self

    def forked(self, places: Places, feed: Feed) -> Source:
        """The source as a fork reads it. Only a source that is FORKABLE has one."""
        raise NotImplementedError(f"a source of kind {self.kind} cannot be forked")

    def limited_to(self, most: int) -> Source:
        """The source whose batches read at most `most` files or records."""
        raise NotImplementedError(f"a source of kind {self.kind} has no limit")

    def batches(self, unseen: int) -> int | None:
        """Batches that `unseen` files or records make, no-data batches apart; None if that cannot be computed."""
        return None


def positive(key: str, value: int | None) -> Iterator[Problem]:
    """A limit of what a batch reads is at least 1."""
    if value is not None and value < 1:
        yield Problem(key=("source", key), observed=show(value), allowed="at least 1")
