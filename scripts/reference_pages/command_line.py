"""The reference page of the command line, from the application."""

from __future__ import annotations

from typing import Any

import typer.main

from streamwarden.cli.app import app
from streamwarden.cli.exit_codes import Exit
from streamwarden.services.workspace import DATA_VARIABLE, LOCAL_DATA_VARIABLE, PROJECT_VARIABLE, STORE_VARIABLE

_HEAD = f"""\
# Command line

You can do everything that the DAGs do from a shell, without Airflow. Tables are for people; `--json` prints the same
for programs. Results go to stdout. An error goes to stderr, as one block that says what was observed, where, what was
expected, and what to do next.

## Workspace

A command works on a project (the folder that holds `config/`) and a data folder (checkpoints, output, drivers, drills,
the embedded store). An option overrides the environment, and the environment overrides the default.

| what | option | environment | default |
|---|---|---|---|
| project | `--project` | `{PROJECT_VARIABLE}` | the nearest folder upward that holds `config/streams` |
| data folder, or its URL | `--data` | `{DATA_VARIABLE}` | `PROJECT/var` |
| data folder, if `--data` is a URL | `--local-data` | `{LOCAL_DATA_VARIABLE}` | `PROJECT/var` |
| store | none: its URL may hold a password | `{STORE_VARIABLE}` | `sqlite:///DATA/streamwarden.db` |

`--project`, `--data` and `--local-data` come before the command: `streamwarden --data /srv/streams status`.

With a URL (`hdfs://lake/streams`, `s3a://bucket/streams`) the relative paths of the streams' files are below the URL,
and so are their savepoints. What belongs to a host (drivers, drills, audits, upgrades, the embedded store) is in the
data folder, which is always on the host. See [what a path means](../how-to/hdfs.md#what-a-path-means).
"""


def page() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD, _exits()]
    root = typer.main.get_command(app)
    for path, command in _commands(root, ""):
        parts.append(_section(path, command))
    return "\n".join(parts)


def _exits() -> str:
    rows = [f"| {code.value} | {code.meaning} |" for code in Exit]
    return "\n".join(["## Exit codes", "", "| code | meaning |", "|---|---|", *rows, ""])


def _commands(group: Any, prefix: str) -> list[tuple[str, Any]]:
    found = []
    for name, command in group.commands.items():
        path = f"{prefix} {name}".strip()
        if not hasattr(command, "commands") or command.invoke_without_command:
            found.append((path, command))
        if hasattr(command, "commands"):
            found += _commands(command, path)
    return found


def _section(path: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = " ".join(_usage(each) for each in arguments)
    lines = [f"## `streamwarden {path}{' ' + usage if usage else ''}`", "", (command.help or "").strip(), ""]
    if arguments or options:
        lines += ["| argument or option | meaning | default |", "|---|---|---|"]
        lines += [f"| `{_escape(_metavar(each))}` | {_escape(each.help or '')} | |" for each in arguments]
        lines += [f"| `{_escape(_flags(each))}` | {_escape(each.help or '')} | {_default(each)} |" for each in options]
        lines.append("")
    return "\n".join(lines)


def _usage(argument: Any) -> str:
    return _metavar(argument) if argument.required else f"[{_metavar(argument)}]"


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _flags(option: Any) -> str:
    flags = ", ".join(option.opts)
    return flags if option.is_flag else f"{flags} {option.metavar or 'VALUE'}"


def _default(option: Any) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    if option.is_flag or option.default is None:
        return ""
    return f"`{option.default}`"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
