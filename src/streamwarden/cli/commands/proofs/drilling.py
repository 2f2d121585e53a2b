"""`drill list`, `drill run`, `drill replay`, `drill show`: break a copy of a stream on purpose, and verify its
output."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import NONE, ago, drill_word
from streamwarden.cli.output import as_json, console, plain, say, table, text
from streamwarden.cli.session import AsJson, workspace
from streamwarden.drills.records.journal import DrillRun, DrillStatus, JournalEntry, JournalRepository
from streamwarden.drills.records.sections import DrillTarget
from streamwarden.errors import ConfigError, StoreError
from streamwarden.services.workspace import Workspace

if TYPE_CHECKING:
    from streamwarden.drills.engine import Engine
    from streamwarden.drills.reporting.comparison import Difference
    from streamwarden.drills.spec import DrillSpec

app = typer.Typer(no_args_is_help=True, help="Drills: break a copy of a stream on purpose and verify its output.")


def exit_of_run(run: DrillRun) -> Exit:
    """0 if the drill passed, 1 if the stream deviated, 4 if the drill was aborted, failed or still runs."""
    if run.status is not DrillStatus.COMPLETED:
        return Exit.UNDECIDED
    return Exit.OK if run.passed else Exit.BAD


@app.command("list")
def list_drills(
    context: typer.Context,
    runs: Annotated[int, typer.Option(min=0, help="Number of the newest runs to show.")] = 10,
    json: AsJson = False,
) -> int:
    """Show the drills and their newest runs."""
    from streamwarden.config.loading import load_drills
    from streamwarden.drills.reporting.report import verdict_word

    space = workspace(context)
    drills, broken = load_drills(space.project)
    recent = list(space.store.journals.recent(limit=runs)) if runs else []
    if json:
        as_json(
            {
                "drills": drills,
                "broken": {name: str(error) for name, error in broken.items()},
                "runs": [_as_data(run) for run in recent],
            }
        )
        return Exit.OK
    table(
        ("drill", "stream", "fault", "target", "schedule", "description"),
        [
            (text(name), text(drill.stream), drill.breaks, drill.target.value, text(drill.schedule or "-"),
             text(drill.description or "-"))
            for name, drill in sorted(drills.items())
        ],
        empty="There are no drills. Add a file to config/drills.",
    )  # fmt: skip
    for name, error in sorted(broken.items()):
        say(f"[red]✗ {text(name)}[/] {text(error)}")
    now = time.time()
    table(
        ("run", "verdict", "started", "why"),
        [
            (text(run.run_id), drill_word(verdict_word(run)), ago(run.started_at, now), text(run.reason) or NONE)
            for run in recent
        ],
        empty="No drill has run yet.",
    )
    return Exit.OK


@app.command("run")
def run_drill(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="DRILL", help="Name of a drill: the stem of its YAML file.")],
    python: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", help="The interpreter beside the other Spark, for the fault `upgrade_spark`."),
    ] = None,
    json: AsJson = False,
) -> int:
    """Run a drill in this process, from its steady state to its report. It takes minutes; Ctrl-C heals before it ends.
    A drill with `target: production` is refused: it runs in Airflow, where a person approves it.

    The exit code is 0 only if the drill passed, 1 if the stream deviated, and 4 if the drill was aborted or failed.
    """
    space = workspace(context)
    drill = space.drill(name)  # raises the error of a broken file
    _require_no_person(drill)
    engine = space.drill_engine()
    run_id = engine.begin(name) if python is None else engine.begin_as(on_python(drill, python))
    return _run(space, engine, name, run_id, json)


def on_python(drill: DrillSpec, python: str) -> DrillSpec:
    """The drill with this interpreter. Raises ConfigError if none of its faults has one."""
    from streamwarden.drills.faults.driver.upgrade_spark import UpgradeSpark

    changed = [replace(one, python=python) if isinstance(one, UpgradeSpark) else one for one in drill.sequence]
    if changed == list(drill.sequence):
        raise ConfigError(
            f"the drill {drill.name} has no fault with an interpreter: {drill.breaks}",
            expected="a drill with the fault `upgrade_spark`, if `--python` is given",
            where=drill.file or drill.name,
            next_step="leave `--python` out, or name a drill of `fault: {kind: upgrade_spark}`",
        )
    return replace(drill, fault=changed[0]) if drill.fault is not None else replace(drill, faults=tuple(changed))


@app.command("replay")
def replay_drill(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run id, or a drill for its newest run.")],
    json: AsJson = False,
) -> int:
    """Run the drill of an earlier run again as it was then: the same fault and fork, whatever its file says now. The
    stream, its job and its input are those of today.

    The exit code is that of `drill run`.
    """
    from streamwarden.drills.state import RunState

    space = workspace(context)
    earlier, engine = _find(space, run), space.drill_engine()
    _require_no_person(RunState.of(earlier).drill)
    return _run(space, engine, earlier.drill, engine.replay(earlier.run_id), json)


def _require_no_person(drill: DrillSpec) -> None:
    """Raises ConfigError for a drill on a live stream: a shell cannot ask for approval."""
    if drill.target is DrillTarget.PRODUCTION:
        raise ConfigError(
            f"the drill {drill.name} hits the live stream {drill.stream}, and a shell has nobody who approves it",
            expected="an approval in Airflow",
            where=f"drill {drill.name}",
            next_step=drill.how_to_run,
        )


def _run(space: Workspace, engine: Engine, name: str, run_id: str, json: bool) -> int:
    """Run all steps of an opened run, and print its journal."""
    if json:
        run = engine.run(name, run_id)
        as_json(_as_data(run))
        return exit_of_run(run)
    say(f"[bold]drill {text(name)}[/], run {text(run_id)}")
    with _narrated(space.store.journals, run_id):
        run = engine.run(name, run_id)
    _show(run, space)
    return exit_of_run(run)


@contextmanager
def _narrated(journals: JournalRepository, run_id: str) -> Iterator[None]:
    """Prints the journal's lines while another thread writes them."""
    over = threading.Event()

    def narrate() -> None:
        printed, last = 0, False
        while not last:
            last = over.wait(1.0)
            with suppress(
                StoreError
            ):  # locked for a moment: the lines follow later, and the engine reports a lasting error
                for entry in journals.entries(run_id)[printed:]:
                    say(line_of(entry))
                    printed += 1

    narrator = threading.Thread(target=narrate, name="narrator", daemon=True)
    narrator.start()
    try:
        yield
    finally:
        over.set()
        narrator.join(10)


def line_of(entry: JournalEntry) -> str:
    """`12:03:04 fault: …`, in Rich's markup."""
    at = datetime.fromtimestamp(entry.at).strftime("%H:%M:%S")
    return f"[dim]{at}[/] [cyan]{entry.step.value}[/]: {text(entry.message)}"


@app.command("show")
def show(
    context: typer.Context,
    run_or_drill: Annotated[
        str | None, typer.Argument(metavar="RUN|DRILL", help="A run id, or a drill for its newest run.")
    ] = None,
    journal: Annotated[bool, typer.Option("--journal", help="Also print every line of the journal.")] = False,
    json: AsJson = False,
) -> int:
    """Show the report of a run, by default of the newest one. The exit code is that of the run."""
    space = workspace(context)
    run = _find(space, run_or_drill)
    if json:
        as_json({**_as_data(run), "entries": space.store.journals.entries(run.run_id)})
    else:
        _show(run, space)
        if journal:
            for entry in space.store.journals.entries(run.run_id):
                say(line_of(entry))
    return exit_of_run(run)


@app.command("compare")
def compare_runs(
    context: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help="A run id, or a drill for its newest run.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The run to compare with it.")],
    json: AsJson = False,
) -> int:
    """Show two runs side by side: whether the job changed, what each measured, which settings and versions differ."""
    from streamwarden.drills.reporting.comparison import compare

    space = workspace(context)
    comparison = compare(_find(space, first), _find(space, second))
    if json:
        as_json(comparison)
        return Exit.OK
    say(text(comparison.job))
    for title, rows, empty in (
        ("measured", comparison.measured, ""),
        ("setting", comparison.settings, "Both runs had the same settings."),
        ("version", comparison.versions, "Both runs had the same versions."),
    ):
        headings = (title, text(comparison.first), text(comparison.second), "change")
        table(headings, [_side_by_side(row) for row in rows], empty=empty)
    return Exit.OK


def _side_by_side(row: Difference) -> tuple[str, str, str, str]:
    change = NONE if not row.change else f"{100 * row.change:+.0f} %"
    return text(row.name), _value(row.first), _value(row.second), change


def _value(value: object) -> str:
    if value is None:
        return NONE
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else text(value)


def _find(space: Workspace, wanted: str | None) -> DrillRun:
    journals = space.store.journals
    drill_run = journals.get(wanted) if wanted is not None else None
    if drill_run is None:
        drill_run = next(iter(journals.recent(drill=wanted, limit=1)), None)
    if drill_run is None and (drill := space.drills().get(wanted or "")) is not None:
        raise ConfigError(f"the drill {wanted} has not run yet", next_step=drill.how_to_run)
    if drill_run is None:
        raise ConfigError(
            f"there is no drill run {wanted!r}, and no run of a drill of that name"
            if wanted
            else "no drill has run yet",
            next_step="list the drills and their runs with `streamwarden drill list`",
        )
    return drill_run


def _show(run: DrillRun, space: Workspace) -> None:
    from streamwarden.drills.reporting.report import build_report, clock, distance, markdown, one_line

    page, report = console(), build_report(run, space.store.journals.entries(run.run_id))
    if not page.is_terminal:
        page.print(markdown(report), markup=False, soft_wrap=True)
        return
    say(f"[bold]{text(report.title)}[/]: {drill_word(report.verdict)}")
    say(text(report.sentence))
    moments = [(clock(moment.at), distance(moment), text(one_line(moment.text))) for moment in report.timeline]
    table(("UTC", "from the fault", "what happened"), moments)
    table(("evidence", "result"), [(text(row.name), text(one_line(row.value))) for row in report.rows])
    for row in report.explanations:
        say(f"[bold]{text(row.name)}[/]: {text(one_line(row.value))}")


def _as_data(run: DrillRun) -> dict[str, object]:
    from streamwarden.drills.reporting.report import verdict_word

    return {**plain(run), "passed": run.passed, "verdict": verdict_word(run)}
