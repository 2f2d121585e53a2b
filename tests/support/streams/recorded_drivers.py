"""Drivers and incidents of the stream `a`, as the store of a test has them."""

import time

from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from support.command_line import CommandLine

NOW = time.time()


def driver(cli: CommandLine, exit: ExitRecord | None = None, process: ProcessIdentity | None = None) -> DriverRecord:
    """A driver of stream `a`, recorded in the store."""
    driver_id = "a-20260101T000000-00000001"
    record = DriverRecord(
        driver_id=driver_id,
        stream="a",
        checkpoint=str(cli.project.data / "checkpoints/a"),
        token=1,
        folder=str(cli.project.data / "drivers/a" / driver_id),
        launched_by="test",
        launched_at=NOW - 60,
    )
    with cli.store() as store:
        store.drivers.launched(record)
        if process is not None:
            store.drivers.bound(driver_id, process)
            store.drivers.started(driver_id, "query", "run", NOW - 50)
        if exit is not None:
            store.drivers.exited(driver_id, exit)
    return record


def ended(kind: ExitKind) -> ExitRecord:
    return ExitRecord(kind=kind, ended_at=NOW - 10, error_class="SomeError", message="because of this")


def incident(status: Status, resolved_at: float | None = None) -> Incident:
    return Incident(
        incident_id="i1",
        stream="a",
        check="state_size",
        status=status,
        opened_at=NOW - 100,
        updated_at=NOW,
        reason="too big",
        advice="tighten the watermark",
        peak=status,
        resolved_at=resolved_at,
    )
