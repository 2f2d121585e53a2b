"""`prepare`: makes the drivers of this host start faster."""

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.connectors import connectors
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import size
from streamwarden.cli.output import say


def _with_flags(command: Callable[..., int]) -> Callable[..., int]:
    """The command with a flag for each connector."""
    signature = inspect.signature(command)
    flags = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option(f"--{name}", help=f"Only fetch the jars for {of.use} (by Maven).")],
        )
        for name, of in connectors().items()
    ]
    given = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    command.__signature__ = signature.replace(parameters=[*given, *flags])  # type: ignore[attr-defined]
    return command


@_with_flags
def prepare(
    again: Annotated[bool, typer.Option("--again", help="Recreate the archive if it exists.")] = False,
    **fetched: bool,
) -> int:
    """Archive the classes that drivers load, so that each start on this host takes less time.

    This is needed once for each Java and Spark; `make setup` does it. It runs a small stream and takes about a minute.
    """
    from streamwarden.adapters.jvm.java import find_java
    from streamwarden.services.fleet.launching import class_archive

    wanted = [connector for name, connector in connectors().items() if fetched[name]]
    for connector in wanted:
        jars = maven.resolve(connector.pom)
        say(f"{len(jars)} jars for {connector.use} in {jars[0].parent}")
    if wanted:
        return Exit.OK
    java = find_java()
    there = class_archive.find(java)
    if there is not None and not again:
        say(f"the archive exists: {there}")
        return Exit.OK
    archive = class_archive.make(java)
    say(f"archived {size(archive.stat().st_size)} of classes: {archive}")
    return Exit.OK
