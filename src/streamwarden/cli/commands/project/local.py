"""`up`: Airflow for one's own project, on this machine and without Docker."""

from __future__ import annotations

import signal
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.exit_report import report_exit
from streamwarden.cli.output import say, text
from streamwarden.cli.session import workspace

if TYPE_CHECKING:
    from streamwarden.config.loading import Catalog


def up(
    context: typer.Context,
    port: Annotated[
        int | None,
        typer.Option(min=1024, max=65535, help="Port of Airflow's pages.", show_default="8080, or the next free one"),
    ] = None,
) -> int:
    """Run Airflow for this project on this machine until Ctrl-C: on SQLite, without Docker and without a login.

    It listens on 127.0.0.1 only. Its database and logs stay in the data folder, in airflow/. A component that ends is
    started again, and the streams' drivers are not affected by that. Ctrl-C stops Airflow and stops the drivers that it
    started at a batch boundary. The next `up` starts them again.
    """
    from streamwarden.services.local.installation import Installation, exclusive

    space = workspace(context)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)

    with exclusive(space.data / "airflow.lock"):
        installation = Installation(
            space.project,
            space.data,
            store=space.store,
            fleet=space.fleet,
            settings=space.environment(),
            port=port,
        )
        try:
            say("starting Airflow (SQLite, no login, this machine only) …")
            installation.end_orphans()
            installation.start()
            say(f"Airflow is up: [bold]{installation.airflow.url}[/]")
            announce(space.catalog(), space.store.stops.wanted_stopped(), space.project / "config" / "streams")
            say("Ctrl-C stops Airflow, and the streams' drivers at a batch boundary")
            installation.keep_running(lambda line: say(f"[yellow]{text(line)}[/]"))
        except KeyboardInterrupt:
            say("stopping Airflow, then the drivers at a batch boundary …")
            return Exit.OK
        finally:
            for observation in installation.stop():
                report_exit(observation)
            say("no process of it runs any more; the data stays")


def announce(catalog: Catalog, stopped: Collection[str], folder: Path) -> None:
    """Say what the folder holds and how to start it: unpausing does not start a stream that was stopped on purpose."""
    count = len(catalog.streams)
    say(f"{text(folder)}: {count} stream{'' if count == 1 else 's'}; unpause the DAG of a stream to start it")
    for name in sorted(set(stopped).intersection(catalog.streams)):
        say(f"{text(name)} was stopped on purpose; the DAG start_stream starts it again")
    for error in catalog.broken.values():
        say(f"[bold red]{text(error)}[/]")


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
