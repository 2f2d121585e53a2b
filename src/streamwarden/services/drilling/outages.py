"""The services that a fork needs: probed with their own clients, stopped and started by a drill's commands."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from streamwarden.adapters.connections import connection
from streamwarden.drills.parts import OutageService
from streamwarden.drills.ports import CommandResult, ForkView, ServiceStatus
from streamwarden.units import Seconds

ANSWERS_WITHIN: Final = 3
"""Seconds within which a running service answers. An open port is not an answer: the server may hang."""

_OUTPUT: Final = 2_000
"""Characters of a command's output that are kept."""


class ForkServices:
    """Implements `drills.ports.ServiceControl`.

    Args:
        project: folder in which the commands run.
        answers_within: seconds within which a running service answers.
    """

    def __init__(self, project: Path, *, answers_within: int = ANSWERS_WITHIN) -> None:
        self._project = project
        self._answers_within = answers_within

    def probe(self, fork: ForkView, service: OutageService) -> ServiceStatus:
        """List the topics of a broker, or run `SELECT 1` in a database."""
        side = fork.spec.source if service is OutageService.SOURCE else fork.spec.sink
        return _PROBES[str(side.SERVICE)](str(side.connection), self._answers_within)

    def run(self, command: Sequence[str], *, within: Seconds) -> CommandResult:
        """Wait for the command, not for what it leaves running. A command that cannot be started has the status 127."""
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    list(command),
                    cwd=self._project,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                return CommandResult(status=127, output=str(error))
            status: int | None
            try:
                status = process.wait(timeout=within)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = None
            output.seek(0)
            return CommandResult(status=status, output=output.read().decode(errors="replace")[-_OUTPUT:])


def _broker(name: str, within: int) -> ServiceStatus:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from streamwarden.adapters.kafka.brokers import QUIET, client_settings

    settings: dict[str, Any] = {**client_settings(connection(name)), "logger": QUIET}
    shown = f"the broker {settings['bootstrap.servers']} (connection {name})"
    try:
        known = AdminClient(settings).list_topics(timeout=within)
    except KafkaException as error:
        return ServiceStatus(name=shown, answers=False, detail=str(error.args[0].str()))
    return ServiceStatus(name=shown, answers=True, detail=f"{len(known.topics)} topics")


def _database(name: str, within: int) -> ServiceStatus:
    import psycopg

    from streamwarden.adapters.postgresql.access import access

    parameters = dict(access(name).parameters)
    shown = f"the database {parameters.get('host')}:{parameters.get('port') or 5432} (connection {name})"
    try:
        with psycopg.connect(**{**parameters, "connect_timeout": within}) as session:
            session.execute("SELECT 1")
    except psycopg.OperationalError as error:
        return ServiceStatus(name=shown, answers=False, detail=" ".join(str(error).split()))
    return ServiceStatus(name=shown, answers=True)


_PROBES: Final = {"broker": _broker, "database": _database}
"""What serves a source or a sink -> how it is asked. `ServiceOutage.require` has refused a side that nothing serves."""
