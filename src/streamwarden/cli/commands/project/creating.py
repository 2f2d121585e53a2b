"""`new`: writes the files of a new stream."""

from pathlib import Path
from typing import Annotated, Final

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import say, text
from streamwarden.cli.session import CliSession, session
from streamwarden.services.scaffolding.sinks import SINKS, USUAL

KINDS: Final = ", ".join(SINKS)


def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new stream: lower case, digits and `_`.")],
    script: Annotated[
        bool, typer.Option("--script", help="A plain PySpark script, without an oracle and a drill.")
    ] = False,
    sink: Annotated[
        str | None, typer.Option(metavar="KIND", help=f"Kind of its sink: {KINDS}.", show_default=USUAL)
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Interpreter of the environment that runs it.", show_default="Streamwarden's"
        ),
    ] = None,
) -> int:
    """Write a new stream, ready to run: its job, its YAML file, its oracle, its drill and some input.

    Change the files to what your stream does. Nothing is overwritten. Without a project, the current folder becomes
    one. A Delta or Iceberg table needs --python: an environment with a Spark for which there is a connector.
    """
    from streamwarden.services.scaffolding.new_stream import JOB, SCRIPT, new_stream
    from streamwarden.services.workspace import find_data

    if sink is not None and (script or sink not in SINKS):
        allowed = "a script names its sink itself" if script else f"one of {KINDS}"
        raise typer.BadParameter(f"{sink!r}: {allowed}", param_hint="--sink")
    given = session(context)
    project = _project(given)
    data, url = find_data(project, given.data, given.local_data)
    written = new_stream(
        name,
        SCRIPT if script else JOB,
        project=project,
        data=url or data,
        sink=sink or USUAL,
        python=None if python is None else str(Path(python).absolute()),
    )
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
