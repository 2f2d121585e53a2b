"""`streamwarden …` as somebody wrote it down, parsed by the application itself; nothing is run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cache
from typing import Any

import typer.main

from streamwarden.cli.app import app


def fault_of(arguments: Sequence[str]) -> str | None:
    """What the command line would say of the words after `streamwarden`; None if it would begin to work."""
    group, words, name = _root(), list(arguments), "streamwarden"
    parent: Any = None
    try:
        while True:
            context = group.make_context(name, words, parent=parent)
            if not hasattr(group, "commands"):
                return None
            rest = [*context._protected_args, *context.args]
            if not rest:
                return None if group.invoke_without_command else f"{name} needs a command"
            name, group, words = group.resolve_command(context, rest)
            parent = context
    except typer.Exit:  # `--help` and `--version` have said what they have to say
        return None
    except typer.TyperException as error:
        return error.format_message()


def fault_of_line(line: str) -> str | None:
    """The same of a line of a shell that begins with `streamwarden`; a comment at its end is none of its words."""
    return fault_of(shlex.split(line, comments=True)[1:])


@cache
def _root() -> Any:
    return typer.main.get_command(app)
