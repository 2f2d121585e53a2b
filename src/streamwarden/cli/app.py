"""The application: its commands, its global options, and how it reports an error."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated

import typer

from streamwarden.cli.commands.health import (
    advising,
    checking,
    incidents,
    inspecting,
    linting,
    muting,
    notifying,
    watching,
)
from streamwarden.cli.commands.project import creating, housekeeping, local, preparing, replaying, validating
from streamwarden.cli.commands.proofs import auditing, crash_matrix, drilling, resilience
from streamwarden.cli.commands.state import (
    assigning,
    deleting,
    forking,
    removed,
    repartitioning,
    restoring,
    savepoints,
    showing,
    upgrading,
)
from streamwarden.cli.commands.streams import history, hosts, status, streams
from streamwarden.cli.exit_codes import Exit, exit_of
from streamwarden.cli.output import error_block
from streamwarden.cli.session import CliSession
from streamwarden.errors import StreamwardenError
from streamwarden.redaction import redacted_text
from streamwarden.services.workspace import DATA_VARIABLE, LOCAL_DATA_VARIABLE, PROJECT_VARIABLE, STORE_VARIABLE

_EXITS = "  \n".join(f"{code.value} {code.meaning}" for code in Exit)

app = typer.Typer(
    name="streamwarden",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Keeps stateful Spark Structured Streaming jobs alive, healthy and provably exactly-once.",
    epilog=f"Exit codes:\n\n{_EXITS}",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"streamwarden {version('streamwarden')}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    project: Annotated[
        str | None,
        typer.Option(help="Folder that holds config/.", envvar=PROJECT_VARIABLE, show_default="nearest folder upward"),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Folder or URL for all output.", envvar=DATA_VARIABLE, show_default="PROJECT/var"),
    ] = None,
    local_data: Annotated[
        str | None,
        typer.Option(
            help="If --data is a URL: folder for what belongs to this host.",
            envvar=LOCAL_DATA_VARIABLE,
            show_default="PROJECT/var",
        ),
    ] = None,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    # No option for the store: its URL may hold a password, and arguments show in the list of processes.
    context.obj = CliSession(project, data, os.environ.get(STORE_VARIABLE), local_data)
    context.call_on_close(context.obj.close)


for _each in (
    creating.new,
    validating.validate,
    linting.lint,
    status.status,
    history.history,
    streams.start,
    streams.stop,
    streams.restart,
    streams.logs,
    streams.drain,
    inspecting.inspect,
    checking.check,
    incidents.incidents,
    muting.mute,
    muting.unmute,
    muting.mutes,
    auditing.audit,
    watching.watch,
    advising.advise,
    resilience.resilience,
    crash_matrix.crash_matrix,
    repartitioning.repartition,
    replaying.replay,
    preparing.prepare,
    local.up,
    upgrading.upgrade,
    housekeeping.sweep,
    restoring.rewind,
):
    app.command()(_each)
showing.app.command("delete")(deleting.delete)
showing.app.command("set")(assigning.set_value)
showing.app.command("compact")(deleting.compact)
showing.app.command("removed")(removed.removed)
app.add_typer(showing.app, name="state")
savepoints.app.command("fork")(forking.fork)
savepoints.app.command("restore")(restoring.restore)
app.add_typer(incidents.app, name="incident")
app.add_typer(muting.app, name="maintenance")
app.add_typer(notifying.app, name="notify")
app.add_typer(hosts.app, name="hosts")
app.add_typer(drilling.app, name="drill")
app.add_typer(savepoints.app, name="savepoint")
app.add_typer(preparing.app, name="dev")
app.add_typer(housekeeping.app, name="store")


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Prints errors as one block, never as a traceback."""
    try:
        result = _command()(list(arguments), prog_name="streamwarden", standalone_mode=False)
        return int(result) if isinstance(result, int) else Exit.OK
    except StreamwardenError as error:
        error_block(error)
        return exit_of(error)
    except (typer.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return Exit.INTERRUPTED
    except typer.TyperException as error:  # the base of all usage errors; most of them can show the usage line too
        show = getattr(error, "show", None)
        if callable(show):
            show()
        else:
            print(error.format_message(), file=sys.stderr)
        return Exit.USAGE
    except BrokenPipeError:  # `streamwarden status | head`: the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Exception as error:
        return _defect(error)


@cache
def _command() -> Callable[..., object]:
    """The command of `app`, built once: building it takes longer than most commands."""
    return typer.main.get_command(app)


def _defect(error: Exception) -> int:
    """Report an unforeseen error. Its traceback goes to a file for the bug report, not to the screen."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="streamwarden-", suffix=".traceback", delete=False) as file:
        file.write(redacted_text("".join(traceback.format_exception(error))))
    error_block(
        StreamwardenError(
            f"{type(error).__name__}: {error}",
            expected="no such error: this is a defect of Streamwarden",
            where=file.name,
            next_step="report it, with that file",
        )
    )
    return Exit.DEFECT
