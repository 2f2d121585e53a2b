"""How a cause of failures is recognised in a chain of exceptions, and what a row of the table of causes says. Pure.

Words of Streamwarden's own messages decide nothing: a regular expression is searched in the errors of others alone.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from streamwarden.lifecycle.failures.error_chain import ErrorLink, is_ours, same_class

KAFKA_ERRORS: Final = "org.apache.kafka.common.errors."
S3A: Final = "org.apache.hadoop.fs.s3a."
"""Packages of exceptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """A pattern of an exception. All that is given has to match the same exception.

    Args:
        condition: Spark's error condition, with `*` for any part; a condition covers its sub-conditions.
        kind: class of the exception, or of one that it inherits from in Python.
        words: a regular expression that is searched in the class and message.
        client: package of a class in the stack trace.
    """

    condition: str = ""
    kind: str = ""
    words: str = ""
    client: str = ""

    def fits(self, link: ErrorLink) -> bool:
        return (
            (not self.condition or _covers(self.condition, link.condition))
            and (not self.kind or same_class(self.kind, link.kind))
            and (not self.words or self._is_said(link))
            and (not self.client or any(frame.startswith(self.client) for frame in link.frames))
        )

    def _is_said(self, link: ErrorLink) -> bool:
        return not is_ours(link.kind) and re.search(self.words, f"{link.kind}: {link.message}") is not None

    def __str__(self) -> str:
        parts = [f"`{self.condition or self.kind}`" if self.condition or self.kind else ""]
        parts += [f"with `{self.words}`" if self.words else "", f"from `{self.client}`" if self.client else ""]
        return " ".join(part for part in parts if part)


def _covers(condition: str, actual: str | None) -> bool:
    return actual is not None and any(fnmatchcase(actual, pattern) for pattern in (condition, f"{condition}.*"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One row of the table.

    Args:
        code: the cause for programs: it is stored with the exit and never changes.
        what: the cause in words, as a clause: it begins the exit's message, unless the error says it itself.
        curable: whether a restart may help. What is not curable stays down until a person acts.
        outage: whether a service that the stream needs is unavailable.
        fenced: whether another driver has taken over.
        before_start: counts only for a job whose query has not started: the same error of a batch may pass.
    """

    code: str
    what: str
    curable: bool
    next_step: str
    signs: tuple[Sign, ...]
    outage: bool = False
    fenced: bool = False
    before_start: bool = False

    @property
    def advice(self) -> str:
        """The next step as whole sentences."""
        return f"{self.next_step[0].upper()}{self.next_step[1:]}."

    @property
    def ours(self) -> bool:
        """Whether one of Streamwarden's own errors shows it; its message already says what happened."""
        return any(is_ours(sign.kind) for sign in self.signs)


def curable(code: str, what: str, next_step: str, *signs: Sign, outage: bool = False, fenced: bool = False) -> Cause:
    """A row whose cause may be gone at the next start."""
    return Cause(code=code, what=what, curable=True, next_step=next_step, signs=signs, outage=outage, fenced=fenced)


def incurable(code: str, what: str, next_step: str, *signs: Sign, before_start: bool = False) -> Cause:
    """A row whose cause stays until a person acts."""
    return Cause(code=code, what=what, curable=False, next_step=next_step, signs=signs, before_start=before_start)


def conditions(*names: str) -> tuple[Sign, ...]:
    """One sign for each of these error conditions of Spark."""
    return tuple(Sign(condition=name) for name in names)


def classes(*names: str, client: str = "") -> tuple[Sign, ...]:
    """One sign for each of these classes of exceptions, thrown in the code of `client` if it is given."""
    return tuple(Sign(kind=name, client=client) for name in names)


def words(*patterns: str) -> tuple[Sign, ...]:
    """One sign for each of these regular expressions."""
    return tuple(Sign(words=pattern) for pattern in patterns)


def first_shown(causes: Iterable[Cause], chain: Sequence[ErrorLink], *, started: bool) -> Cause | None:
    """The first cause that matches any exception in the chain, or None. `started`: whether the query had started."""
    rows = (cause for cause in causes if not (cause.before_start and started))
    return next((cause for cause in rows if _shows(cause, chain)), None)


def _shows(cause: Cause, chain: Sequence[ErrorLink]) -> bool:
    return any(sign.fits(link) for sign in cause.signs for link in chain)
