"""`dev kafka`: a broker for a machine that has none."""

from __future__ import annotations

import subprocess
from json import dumps
from typing import Annotated

import typer

from streamwarden.cli.exits import Exit
from streamwarden.cli.output import say, text
from streamwarden.cli.session import workspace

_dev = typer.Typer(no_args_is_help=True, help="Servers for trying things out on one machine.")


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(_dev, name="dev")


@_dev.command("kafka")
def kafka(
    context: typer.Context,
    port: Annotated[
        int, typer.Option(min=1024, max=65534, help="Of the broker; the next one is its controller's.")
    ] = 9092,
) -> int:
    """Run a Kafka broker of one node on 127.0.0.1 until Ctrl-C. It has no authentication, and keeps its records.

    It needs Maven once, for Kafka's jars.
    """
    from streamwarden.adapters.jvm import maven
    from streamwarden.adapters.jvm.java import find_java
    from streamwarden.adapters.kafka.dev_broker import set_up

    folder = workspace(context).data / "dev" / "kafka"
    jars = maven.resolve(maven.KAFKA_BROKER)
    command = set_up(folder, java_home=find_java(), jars=jars, port=port, controller=port + 1)
    connection = dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": f"127.0.0.1:{port}"}})
    say(f"broker: 127.0.0.1:{port}, records and log in {text(folder)}")
    say("its connection, for the shells that start streams:")
    say(text(f"  export AIRFLOW_CONN_EVENTS_BROKER='{connection}'"))
    with (folder / "log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as broker:
        try:
            status = broker.wait()
        except KeyboardInterrupt:  # the terminal sent it to the broker too
            broker.wait(timeout=60)
            return Exit.INTERRUPTED
    say(f"the broker ended with status {status}: read {text(folder / 'log')}")
    return Exit.BAD
