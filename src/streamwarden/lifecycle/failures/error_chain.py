"""A chain of causes: what raised, what that came from, and so on down to the first exception. Pure.

The driver reads chains from exception objects (`streamwarden.spark.driver.failures`). Where only a text is left (the
log of a driver that wrote no outcome, the event of a query whose JVM is gone), `chain_of_text` reads it from that.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streamwarden import errors

CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]{3,}(?:\.[A-Z0-9_]+)?)\]")
"""Spark's error condition where a message begins with it, or quotes a message that does."""

TRACEBACK: Final = "Traceback (most recent call last)"

PYTHON_ERROR: Final = re.compile(r"^[^\S\n]*((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)): ?(.*)$", re.MULTILINE)
"""The line of a Python traceback that names the exception."""

_NAME: Final = r"(?:[A-Za-z_$][\w$]*\.)*[A-Za-z_$][\w$]*"
_JAVA_LINK: Final = re.compile(rf"\s*(?:Exception in thread \S+ )?({_NAME}(?:Exception|Error|Failure))(?:: ?|\s|$)")
_QUOTED: Final = re.compile(r"(?<![\w$])(?<![\w$]\.)((?:[a-z_][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error))\b")
_FRAME: Final = re.compile(r"^\s*at (?:[\w.]+/)?([\w.$]+)\.[\w<>$]+\(", re.MULTILINE)
_CAUSED_BY: Final = re.compile(r"^Caused by: |: Caused by: ", re.MULTILINE)
_OURS: Final = frozenset(name for name in dir(errors) if name[0].isupper())


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLink:
    """One exception of a chain.

    Args:
        kind: its class, with package or module where these are known; empty for a condition that a message quotes.
        condition: Spark's error condition (`CANNOT_LOAD_STATE_STORE.UNCATEGORIZED`).
        frames: classes of its stack trace, innermost first: they name the client that failed.
    """

    kind: str = ""
    message: str = ""
    condition: str | None = None
    frames: tuple[str, ...] = ()


Chain = tuple[ErrorLink, ...]
"""From the exception that was raised to the first cause."""


def is_ours(kind: str) -> bool:
    """Whether the class is one of Streamwarden's own errors."""
    package, _, name = kind.rpartition(".")
    return name in _OURS and package in ("", errors.__name__)


def same_class(one: str, other: str) -> bool:
    """Whether two class names are the same; one of them may lack the package or module."""
    return one == other or one.endswith(f".{other}") or other.endswith(f".{one}")


def quoted(message: str) -> Iterator[ErrorLink]:
    """The links that a message of Spark's quotes: a failed task keeps the text of its exception, not always the object,
    and a Python worker keeps a traceback."""
    for condition in CONDITION.findall(message):
        yield ErrorLink(condition=condition)
    for kind in _QUOTED.findall(message):
        yield ErrorLink(kind=kind)
    _, _, traceback = message.partition(TRACEBACK)
    for kind, said in PYTHON_ERROR.findall(traceback):
        yield ErrorLink(kind=kind, message=said)
    for part in _CAUSED_BY.split(traceback)[1:]:
        yield from _links_of_part(part)


def of_java(kind: str, message: str, condition: str | None, frames: tuple[str, ...] = ()) -> Iterator[ErrorLink]:
    """The link of an exception of the JVM, then those that its message quotes.

    A traceback in the message is not part of the link: it holds the words of a job or of Streamwarden, which decide
    nothing.
    """
    yield ErrorLink(kind=kind, message=message.partition(TRACEBACK)[0], condition=condition, frames=frames)
    yield from quoted(message)


def chain_of_text(text: str, given: str | None = None) -> Chain:
    """The chain in a text that Spark or Java printed. `given`: an error condition or a class name that came with the
    text."""
    if given is not None and is_ours(given):
        return (ErrorLink(kind=given, message=text),)
    links: list[ErrorLink] = []
    if given:
        is_condition = CONDITION.fullmatch(f"[{given}]") is not None
        links.append(ErrorLink(condition=given) if is_condition else ErrorLink(kind=given))
    for part in _CAUSED_BY.split(text):
        links += _links_of_part(part)
    return tuple(links)


def _links_of_part(part: str) -> Iterator[ErrorLink]:
    head = re.split(r"\n[^\S\n]*at ", part, maxsplit=1)[0]
    named = _JAVA_LINK.match(head)
    condition = CONDITION.search(head)
    yield from of_java(
        kind=named[1] if named else "",
        message=head[named.end() :].strip() if named else head.strip(),
        condition=condition[1] if condition else None,
        frames=tuple(_FRAME.findall(part)),
    )
