"""Texts that name commands: what the pages can do themselves is a link, any other is shown as code. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_CODE: Final = re.compile(r"`([^`\n]{1,400})`")
_STREAM: Final = r"(?P<name>[a-z][a-z0-9_]*)"
_RUN: Final = re.compile(r"\brun $", re.IGNORECASE)
_ID: Final = r"(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*)"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text.

    Args:
        code: whether it is shown as code.
        path: the address, below the prefix of the pages, of the page that replaces `command`; None: it is no link.
    """

    text: str
    code: bool = False
    path: str | None = None
    command: str = ""


@dataclass(frozen=True, slots=True)
class _Page:
    pattern: re.Pattern[str]
    path: str
    label: str
    verb: str


def _page(command: str, path: str, label: str, verb: str = "open") -> _Page:
    return _Page(re.compile(f"streamwarden {command}"), path, label, verb)


_PAGES: Final = (
    _page(f"drill show {_ID}", "/drills/{name}", "its report"),
    _page(f"drill run {_STREAM}", "/drills?q={name}", "the drill {name}", "run"),
    _page("drill list", "/drills", "the page of all drills"),
    _page(f"start {_STREAM}", "/streams/{name}", "Start on the page of {name}", "use"),
    _page(f"stop {_STREAM}", "/streams/{name}", "Stop on the page of {name}", "use"),
    _page(f"restart {_STREAM}", "/streams/{name}", "Restart on the page of {name}", "use"),
    _page(f"status {_STREAM}", "/streams/{name}", "the page of {name}"),
    _page("status", "/", "the fleet"),
    _page(f"inspect {_STREAM}", "/streams/{name}/checkpoint", "the checkpoint of {name}"),
    _page(f"advise {_STREAM}", "/streams/{name}/advice", "the advice for {name}"),
    _page(f"savepoint list {_STREAM}", "/streams/{name}/state", "the savepoints of {name}"),
    _page("incidents", "/incidents", "the incidents"),
    _page("incidents --all", "/incidents?past=true", "all incidents"),
    _page(f"incident show {_ID}", "/incidents/{name}", "its page"),
    _page(f"incident (?:ack|comment) {_ID}(?: TEXT)?", "/incidents/{name}", "its page"),
)
"""The commands for which there is a page."""


def pieces(text: str) -> Iterator[Piece]:
    """The text in its order, without the backticks. In front of a page, `run` becomes `open` or `use`."""
    over = 0
    for found in _CODE.finditer(text):
        page, piece = _named(found[1])
        yield Piece(_before(text[over : found.start()], page))
        yield piece
        over = found.end()
    yield Piece(text[over:])


def _before(text: str, page: _Page | None) -> str:
    """What stands before the page, with its verb in place of `run`."""
    return text if page is None else _RUN.sub(lambda run: _as(page.verb, run[0]), text)


def _as(verb: str, run: str) -> str:
    return f"{verb.capitalize() if run[0].isupper() else verb} "


def _named(command: str) -> tuple[_Page | None, Piece]:
    for page in _PAGES:
        if found := page.pattern.fullmatch(command):
            named = found.groupdict()
            return page, Piece(page.label.format(**named), path=page.path.format(**named), command=command)
    return None, Piece(command, code=True)
