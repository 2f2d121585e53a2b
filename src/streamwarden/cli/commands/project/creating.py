"""`new`: writes the files of a new stream."""

from pathlib import Path
from typing import Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import say, text
from streamwarden.cli.session import CliSession, session


def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new stream: lower case, digits and `_`.")],
    script: Annotated[
        bool, typer.Option("--script", help="A plain PySpark script, without an oracle and a drill.")
    ] = False,
) -> int:
    """Write a new stream, ready to run: its job, its YAML file, its oracle, its drill and some input.

    Change the files to what your stream does. Nothing is overwritten. Without a project, the current folder becomes
    one.
    """
    from streamwarden.services.scaffolding.new_stream import JOB, SCRIPT, new_stream
    from streamwarden.services.workspace import find_data

    given = session(context)
    project = _project(given)
    data, url = find_data(project, given.data, given.local_data)
    written = new_stream(name, SCRIPT if script else JOB, project=project, data=url or data)
    for path in written.files:
        say(f"[green]wrote[/] {text(path)}")
    say(f"[green]wrote[/] sample input in {text(written.input)}")
    say("\nNext:")
    for command in written.commands:
        say(f"  {text(command)}")
    return Exit.OK


def _project(given: CliSession) -> Path:
    """The project that a command would use, else the folder named for one, else the current folder."""
    from streamwarden.errors import ConfigError
    from streamwarden.services.workspace import find_project

    named = None if given.project is None else Path(given.project)
    try:
        return find_project(named, Path.cwd())
    except ConfigError:
        return (Path.cwd() if named is None else named).absolute()
