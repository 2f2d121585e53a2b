"""`hosts`: the hosts that run drivers, their reports, and draining them."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.exit_report import report_exit
from streamwarden.cli.formatting import NONE, ago, size
from streamwarden.cli.output import as_json, say, table, text
from streamwarden.cli.session import AsJson, who, workspace
from streamwarden.errors import StoreError
from streamwarden.lifecycle.hosts.report import REPORT_EVERY, HostState

if TYPE_CHECKING:
    from streamwarden.services.hosts.listing import Host

app = typer.Typer(invoke_without_command=True)

HostName = Annotated[str, typer.Argument(metavar="HOST", help="Name of a host, as `streamwarden hosts` shows it.")]

_COLOURS: Final = {
    HostState.READY: "green",
    HostState.DRAINING: "yellow",
    HostState.DRAINED: "yellow",
    HostState.SILENT: "bold red",
    HostState.UNKNOWN: "dim",
}


@app.callback()
def hosts(context: typer.Context, json: AsJson = False) -> int:
    """Show the hosts that run drivers: state, capacity, drivers, memory, versions. Exit code 1 if one is silent."""
    if context.invoked_subcommand is not None:
        return Exit.OK
    from streamwarden.services.hosts.listing import hosts as all_hosts

    space, now = workspace(context), time.time()
    found = all_hosts(space.store, now)
    if json:
        as_json({"at": now, "hosts": found})
    else:
        seen_at = now + space.store.leases.clock_offset()
        empty = "No host reports: run `streamwarden hosts run` on each host that starts drivers."
        columns = ("HOST", "STATE", "LAST REPORT", "CORES", "MEMORY FREE", "DRIVERS", "THEIR MEMORY", "VERSIONS")
        table(columns, [_row(host, seen_at) for host in found], empty=empty)
        for drain in (host.drain for host in found if host.drain is not None):
            say(f"{text(drain.host)}: drained by {text(drain.requested_by)}: {text(drain.reason)}")
    return Exit.BAD if any(host.state is HostState.SILENT for host in found) else Exit.OK


def _row(host: Host, now: float) -> tuple[str, ...]:
    report = host.report
    names = ", ".join(text(driver.stream) for driver in host.drivers) or NONE
    return (
        text(host.name),
        f"[{_COLOURS[host.state]}]{host.state.value}[/]",
        ago(report.heartbeat_at, now) if report else NONE,
        str(report.cores) if report else NONE,
        f"{size(report.available_bytes)} of {size(report.memory_bytes)}" if report else NONE,
        names,
        size(host.resident_bytes or None),
        text(", ".join(f"{name} {version}" for name, version in report.versions.items())) if report else NONE,
    )


@app.command()
def run(context: typer.Context) -> int:
    """Report this host every five seconds, until SIGTERM or Ctrl-C. Run it as a service on each host with drivers.

    It also says whether this host reads a checkpoint, if the driver of another host asks whose storage is silent. The
    store being unavailable is no reason to end. No driver of this host depends on it.
    """
    from streamwarden.services.hosts.reporting import HostReporter
    from streamwarden.services.hosts.witness import Witness

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    space = workspace(context)
    Witness(space.store).start(stop)
    reporter: HostReporter | None = None
    silent: bool | None = None
    while not stop.is_set():
        try:
            reporter = reporter or HostReporter(space.store, space.data)
            report = reporter.report()
        except StoreError as error:
            if not silent:
                say(f"[yellow]the store does not answer:[/] {text(error)}")
            silent = True
        else:
            if silent is not False:
                say(f"{text(report.name)} reports to the store every {REPORT_EVERY:g} s")
            silent = False
        stop.wait(REPORT_EVERY)
    return Exit.OK


@app.command()
def drain(
    context: typer.Context,
    host: HostName,
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")] = "no reason given",
) -> int:
    """Move the streams of a host: it starts no driver any more, and its drivers end at a batch boundary.

    Any host can ask for it. Airflow or a supervisor starts the streams on other hosts. The host stays drained until
    `hosts resume`. Exit code 1 if a driver had to be killed.
    """
    from streamwarden.services.hosts.draining import drain_host

    space = workspace(context)
    ended = drain_host(space.store, space.fleet, host, by=who(), reason=reason, now=time.time())
    say(f"{text(host)} is drained" if ended else f"{text(host)} is drained: no driver ran there")
    return max((report_exit(observation) for observation in ended), default=Exit.OK)


@app.command()
def resume(context: typer.Context, host: HostName) -> int:
    """Let a drained host start drivers again. Streams that run elsewhere stay there."""
    from streamwarden.services.hosts.draining import require_host

    space = workspace(context)
    require_host(space.store, host, time.time())
    drained = space.store.hosts.resume(host)
    say(f"{text(host)} may start drivers again" if drained else f"{text(host)} was not drained")
    return Exit.OK
