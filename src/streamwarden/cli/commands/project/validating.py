"""`validate`: checks every file of the configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from streamwarden.checkpoint.diagnosis.damage import Damage
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, text
from streamwarden.cli.session import AsJson, workspace
from streamwarden.errors import CheckpointError, ConfigError, DrillAborted, StreamwardenError, VerificationError
from streamwarden.lint.finding import Finding
from streamwarden.problems import ConfigFileError
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.drills.spec import DrillSpec


def validate(context: typer.Context, json: AsJson = False) -> int:
    """Check every stream, every drill, the thresholds and the notifications. Exit code 2 if a file cannot be used.

    Also shows what `lint` finds in the streams' files and jobs, and output folders that were moved. Neither makes a
    file invalid.
    """
    space = workspace(context)
    good, wrong = _judge(space)
    streams = space.catalog().streams
    usable = [streams[name] for kind, name, _ in good if kind == "stream"]
    findings, moved = _findings(space, usable), _moved(usable)
    if json:
        as_json(
            {
                "valid": not wrong,
                "files": [{"file": file, "kind": kind, "name": name} for kind, name, file in good],
                "errors": [_as_data(kind, name, error) for kind, name, error in wrong],
                "findings": findings,
                "moved_outputs": moved,
            }
        )
    else:
        for kind, name, _file in good:
            several = _queries(streams[name]) if kind == "stream" else ""
            say(f"[green]✓[/] {kind} {text(name)}{several}")
            for finding in findings if kind == "stream" else ():
                if finding.stream == name:
                    say(f"  [yellow]{finding.rule} {finding.severity}:[/] {text(finding.observed)}")
            if kind == "stream" and name in moved:
                say(f"  [yellow]output:[/] {text(moved[name].what)}; next: {text(moved[name].next_step)}")
        for kind, name, error in wrong:
            say(f"[red]✗[/] {kind} {text(name)}\n  {text(error)}")
        tally = f"{len(good)} valid, {len(wrong)} broken"
        say(f"[bold red]{tally}[/]" if wrong else f"[bold green]{tally}[/]")
    return Exit.USAGE if wrong else Exit.OK


def _judge(space: Workspace) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, ConfigError]]]:
    """(kind, name, file) of each usable file, (kind, name, error) of each other."""
    from streamwarden.config.isolation import isolated
    from streamwarden.config.loading import THRESHOLDS, load_drills, load_thresholds
    from streamwarden.config.notifications import FILE as NOTIFICATIONS
    from streamwarden.config.notifications import load_notifications
    from streamwarden.config.project.standbys import FILE as STANDBYS
    from streamwarden.config.project.standbys import load_standbys
    from streamwarden.services.drilling.drillable import require_target
    from streamwarden.services.fleet.readable_places import unreadable_place

    catalog = space.catalog()
    drills, broken = load_drills(space.project)
    unreadable = {
        name: error
        for name, spec in catalog.streams.items()
        if (error := _job_problem(spec, tuple(drills.values())) or unreadable_place(spec)) is not None
    }
    good = [("stream", name, spec.file) for name, spec in sorted(catalog.streams.items()) if name not in unreadable]
    wrong = [("stream", name, error) for name, error in sorted({**catalog.broken, **unreadable}.items())]
    for name, drill in sorted(drills.items()):
        shown = drill.file.removeprefix(f"{space.project}/")
        try:
            stream = catalog.get(drill.stream)
            with isolated(drill.file, "the drill was compared with its stream", passes=StreamwardenError):
                for fault in drill.sequence:
                    fault.require(stream.name, stream)
                require_target(stream, drill, catalog.streams.values())
            good.append(("drill", name, drill.file))
        except ConfigError as error:
            problem = _broken(drill.stream) if drill.stream in catalog.broken else error
            wrong.append(("drill", name, _in_file(problem, f"{shown}: stream")))
        except VerificationError as error:
            observed = f"no drill can judge {drill.stream}: {error.observed}"
            wrong.append(("drill", name, _in_file(error, f"{shown}: stream", observed, error.where)))
        except DrillAborted as error:
            wrong.append(("drill", name, _in_file(error, f"{shown}: fault")))
        except CheckpointError as error:
            wrong.append(("drill", name, _in_file(error, f"{shown}: fork")))
    wrong += [("drill", name, error) for name, error in sorted(broken.items())]
    for kind, file, load in (
        ("thresholds", THRESHOLDS, load_thresholds),
        ("notifications", NOTIFICATIONS, load_notifications),
        ("standbys", STANDBYS, load_standbys),
    ):
        try:
            with isolated(str(file)):
                load(space.project)
            if kind == "thresholds" or (space.project / file).exists():
                good.append((kind, "of the project", str(space.project / file)))
        except ConfigError as error:
            wrong.append((kind, "of the project", error))
    return good, wrong


def _in_file(error: StreamwardenError, where: str, observed: str = "", origin: str = "") -> ConfigError:
    """`error` as an error of the drill's file; `origin` is the place that the error named itself."""
    expected = f"{error.expected} ({origin})" if origin else error.expected
    return ConfigError(observed or error.observed, expected=expected, where=where, next_step=error.next_step)


def _broken(stream: str) -> ConfigError:
    """The problem of a drill whose stream cannot be used; the stream's own error is reported beside it."""
    return ConfigError(
        f"the file of the stream {stream!r} is broken",
        expected="a stream that can be used",
        next_step=f"correct the file of {stream}, whose errors are listed with it",
    )


def _job_problem(spec: StreamSpec, drills: Sequence[DrillSpec]) -> ConfigError | None:
    """The error of a job that a driver would refuse to run, or that `lint` cannot read; None if a driver can run it."""
    from streamwarden.config.isolation import isolated
    from streamwarden.services.analysis.linting import job_problem, lint_declared

    try:
        with isolated(spec.job, "the job was read"):
            problem = job_problem(spec)
            lint_declared(spec, drills)
    except ConfigError as error:
        return error
    return problem


def _queries(spec: StreamSpec) -> str:
    """` (2 queries)`, if the file or the job's text shows that there are several."""
    from streamwarden.services.analysis.jobs import job_facts

    count = len(spec.queries) or job_facts(spec).queries or 1
    return f" ({count} queries)" if count > 1 else ""


def _findings(space: Workspace, streams: Iterable[StreamSpec]) -> list[Finding]:
    """The findings of the rules that need neither the store nor a checkpoint."""
    from streamwarden.services.analysis.linting import lint_declared

    drills, known = tuple(space.drills().values()), tuple(space.catalog().streams.values())
    return [finding for spec in streams for finding in lint_declared(spec, drills, known)]


def _moved(streams: Iterable[StreamSpec]) -> dict[str, Damage]:
    """Stream -> the finding, of those whose output folder was moved. A folder that cannot be read is left out."""
    from streamwarden.adapters.storage.files import open_path
    from streamwarden.checkpoint.diagnosis.moved import moved_output

    found = {}
    for spec in streams:
        if spec.sink.MANIFEST and spec.sink.path is not None:
            with contextlib.suppress(StreamwardenError, OSError):
                damage = moved_output(open_path(spec.sink.path, spec.storage.connection))
                if damage is not None:
                    found[spec.name] = damage
    return found


def _as_data(kind: str, name: str, error: ConfigError) -> dict[str, object]:
    problems = [
        {
            "key": problem.dotted,
            **{part: getattr(problem, part) for part in ("line", "observed", "allowed", "next_step")},
        }
        for problem in (error.problems if isinstance(error, ConfigFileError) else ())
    ]
    return {"kind": kind, "name": name, "message": str(error), "problems": problems}
