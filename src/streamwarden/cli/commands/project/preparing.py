"""`prepare` and `dev kafka`: what the streams of this machine need."""

import inspect
import signal
import subprocess
from collections.abc import Callable
from json import dumps
from pathlib import Path
from typing import Annotated, Final

import typer

from streamwarden.adapters.jvm.connectors import connectors
from streamwarden.adapters.jvm.maven import KAFKA_BROKER, resolve
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import size
from streamwarden.cli.output import say, text
from streamwarden.cli.session import workspace
from streamwarden.services.workspace import Workspace

PARTITIONS: Final = 3

app = typer.Typer(no_args_is_help=True, help="Servers for trying things out on one machine.")


@app.command("kafka")
def kafka(
    context: typer.Context,
    port: Annotated[
        int, typer.Option(min=1024, max=65534, help="Of the broker; the next one is its controller's.")
    ] = 9092,
    topic: Annotated[
        list[str] | None, typer.Option(help=f"Create this topic, with {PARTITIONS} partitions, if it does not exist.")
    ] = None,
) -> int:
    """Run a Kafka broker of one node on 127.0.0.1 until Ctrl-C. It has no authentication, and keeps its records.

    It needs Maven once, for Kafka's jars. A stream starts only if its topic exists: create it with --topic.
    """
    from streamwarden.adapters.jvm.java import find_java
    from streamwarden.adapters.kafka.dev_broker import create_topics, require_free, set_up

    require_free(port, port + 1)
    folder = workspace(context).data / "dev" / "kafka"
    jars = resolve(KAFKA_BROKER)
    command = set_up(folder, java_home=find_java(), jars=jars, port=port, controller=port + 1)
    connection = dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": f"127.0.0.1:{port}"}})
    say(f"broker: 127.0.0.1:{port}, records and log in {text(folder)}")
    say("its connection, for the shells that start streams:")
    say(text(f"  export AIRFLOW_CONN_EVENTS_BROKER='{connection}'"))
    with (folder / "log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as broker:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # the broker ends with this command
        try:
            for name in create_topics(f"127.0.0.1:{port}", topic or (), PARTITIONS):
                say(f"created the topic {text(name)}")
            status = broker.wait()
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
        finally:
            broker.terminate()
    say(f"the broker ended with status {status}: read {text(folder / 'log')}")
    return Exit.BAD


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
    context: typer.Context,
    again: Annotated[bool, typer.Option("--again", help="Recreate the archive if it exists.")] = False,
    python: Annotated[str | None, typer.Option(help="For the Spark of this interpreter's environment.")] = None,
    maven: Annotated[bool, typer.Option("--maven", help="Only build and test what `spark.maven` names.")] = False,
    **fetched: bool,
) -> int:
    """Archive the classes that drivers load, so that each start on this host takes less time.

    This is needed once for each Java and each Spark (--python); `make setup` does it for the Spark of this environment.
    It runs a small stream and takes about a minute. The jars of a connector are for one version of Spark, too.
    """
    from streamwarden.adapters.jvm.environments import named, own
    from streamwarden.adapters.jvm.java import find_java
    from streamwarden.services.fleet.launching import class_archive

    if maven:
        return _build(workspace(context))
    wanted = [connector for name, connector in connectors().items() if fetched[name]]
    for connector in wanted:
        spark = connector.usual if python is None else named(python).minor
        jars = resolve(connector.pom, connector.profile(spark))
        say(f"{len(jars)} jars for {connector.use} in {jars[0].parent}")
    if wanted:
        return Exit.OK
    java = find_java()
    runs_in = own() if python is None else named(python)
    there = class_archive.find(runs_in, java)
    if there is not None and not again:
        say(f"the archive exists: {there}")
        return Exit.OK
    archive = class_archive.make(runs_in, java)
    say(f"archived {size(archive.stat().st_size)} of classes: {archive}")
    return Exit.OK


def _build(space: Workspace) -> int:
    """Build the Maven projects of the streams, each for the Spark of its stream. Raises ProcessError, ConfigError."""
    from streamwarden.adapters.jvm.environments import environment_of
    from streamwarden.adapters.jvm.maven_project import build

    specs = space.catalog().streams.values()
    named = {(spec.spark.maven, spec.spark.python): spec.spark for spec in specs if spec.spark.maven is not None}
    if not named:
        say("no stream of this project names a Maven project (`spark.maven`)")
    for (pom, _), spark in named.items():
        jar = build(Path(pom), environment_of(spark))
        say(f"built and tested {text(pom)}: {text(jar)}")
    return Exit.OK
