"""`prepare`: makes the drivers of this host start faster."""

from typing import Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import size
from streamwarden.cli.output import say


def prepare(
    again: Annotated[bool, typer.Option("--again", help="Recreate the archive if it exists.")] = False,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Only fetch the jars for streams on Kafka (by Maven).")
    ] = False,
    s3: Annotated[
        bool, typer.Option("--s3", help="Only fetch the jars for streams on s3a:// paths (by Maven).")
    ] = False,
) -> int:
    """Archive the classes that drivers load, so that each start on this host takes less time.

    This is needed once for each Java and Spark; `make setup` does it. It runs a small stream and takes about a minute.
    """
    from streamwarden.adapters.jvm import maven
    from streamwarden.adapters.jvm.java import find_java
    from streamwarden.services.fleet.launching import class_archive

    fetched = [(maven.KAFKA, "Kafka")] if kafka else []
    fetched += [(maven.S3, "s3a:// paths")] if s3 else []
    for pom, what in fetched:
        jars = maven.resolve(pom)
        say(f"{len(jars)} jars for {what} in {jars[0].parent}")
    if fetched:
        return Exit.OK
    java = find_java()
    there = class_archive.find(java)
    if there is not None and not again:
        say(f"the archive exists: {there}")
        return Exit.OK
    archive = class_archive.make(java)
    say(f"archived {size(archive.stat().st_size)} of classes: {archive}")
    return Exit.OK
