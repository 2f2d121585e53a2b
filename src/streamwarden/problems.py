"""Validation problems of a configuration file: every problem of the file in one error."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.errors import ConfigError
from streamwarden.extras import installed, installing

KeyPath = tuple[str | int, ...]

LONGEST_VALUE: Final = 80
"""Characters of a value that a message shows: enough to recognize it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One wrong key of one file.

    Args:
        key: path of the key, empty for the file as a whole.
        observed: what is the case, with the value.
        allowed: what is allowed there.
        next_step: what to do about it.
        line: 1-based line of the key, None if it has none (a missing key).
    """

    key: KeyPath = ()
    observed: str
    allowed: str = ""
    next_step: str = ""
    line: int | None = None

    @property
    def dotted(self) -> str:
        """`('spark', 'conf', 'a.b')` -> `spark.conf.a.b`, `('tags', 1)` -> `tags[1]`."""
        text = ""
        for part in self.key:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        return text

    def __str__(self) -> str:
        place = ", ".join(part for part in (f"line {self.line}" if self.line else "", self.dotted) if part)
        parts = [f"{place}: {self.observed}" if place else self.observed]
        if self.allowed:
            parts.append(f"expected {self.allowed}")
        if self.next_step:
            parts.append(f"next: {self.next_step}")
        return "; ".join(parts)


class ConfigFileError(ConfigError):
    """All problems of one file. One problem reads like any other error, several read as a list."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            only = self.problems[0]
            place = f"{file}:{only.line}" if only.line else file
            super().__init__(
                only.observed,
                expected=only.allowed,
                where=f"{place}: {only.dotted}" if only.key else place,
                next_step=only.next_step,
            )
        else:
            listing = "".join(f"\n  - {problem}" for problem in self.problems)
            super().__init__(
                f"{len(self.problems)} problems{listing}",
                where=file,
                next_step="correct the file, then run `streamwarden validate`",
            )

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return super().__str__()
        return f"{self.where}: {self.observed}\n  next: {self.next_step}"  # a line each, as the problems have

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.file, self.problems)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Sorted by line; problems without a line come first."""
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.dotted))


def show(value: object) -> str:
    """`value` as a message shows it: quoted, and cut if it is long."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def missing_reader(section: str, kind: str, package: str) -> Iterator[Problem]:
    """The package that reads a kind of table without Spark, if it is not installed here.

    Args:
        section: `source` or `sink` of the stream's file.
    """
    if not installed(package):
        allowed = f"the package {package} in this environment: it reads the table without Spark"
        step = f"run: {installing(package)}"
        yield Problem(key=(section, "kind"), observed=show(kind), allowed=allowed, next_step=step)
