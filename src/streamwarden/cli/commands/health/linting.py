"""`lint`: checks streams against the best practices of state management."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.output import as_json, say, table, text
from streamwarden.cli.session import AsJson, MaybeStream, workspace
from streamwarden.errors import JobError
from streamwarden.lint.finding import Finding, Severity
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.lint.facts import PlanFacts

_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.UNKNOWN: "dim"}


def lint(
    context: typer.Context,
    stream: MaybeStream = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Build the job's query in a local Spark and read its logical plan.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for a warning too.")] = False,
    json: AsJson = False,
) -> int:
    """Check streams against the best practices of state management: docs/reference/lint.md has the rules.

    Reads the stream's file, its job's text, its checkpoint and its history. It runs no code of the job, except with
    `--plan`, which builds the query and does not start it. Exit code 1 if there is an error, 4 if there is no error,
    but a rule could not be judged for some stream.
    """
    from streamwarden.lint import linter
    from streamwarden.services.analysis.linting import gathered

    space = workspace(context)
    catalog = space.catalog()
    specs = [catalog.get(stream)] if stream is not None else [catalog.streams[name] for name in sorted(catalog.streams)]
    drills, store, now = tuple(space.drills().values()), space.store if space.has_store() else None, time.time()
    findings_of: dict[str, tuple[Finding, ...]] = {}
    problems: dict[str, tuple[str, ...]] = {}
    for spec in specs:
        planned, problem = _plan(spec) if plan else (None, "")
        facts = gathered(spec, drills, store, now, streams=catalog.streams.values(), plan=planned)
        findings_of[spec.name] = linter.lint(facts)
        problems[spec.name] = (*facts.problems, *((problem,) if problem else ()))
    if json:
        as_json(
            {"streams": {name: {"findings": findings_of[name], "not_read": problems[name]} for name in findings_of}}
        )
    else:
        for name, findings in findings_of.items():
            _show(name, findings, problems[name])
    return _exit([finding for findings in findings_of.values() for finding in findings], strict)


def _show(name: str, findings: tuple[Finding, ...], problems: tuple[str, ...] = ()) -> None:
    rows = [
        (
            finding.rule,
            f"[{_COLOURS[finding.severity]}]{finding.severity}[/]",
            f"{text(finding.observed)}\n[italic]{text(finding.remedy)}[/]",
            text(f"{finding.origin}: {finding.where}"),
        )
        for finding in findings
    ]
    table(("rule", "severity", "what", "read from"), rows, title=name, empty=f"[green]✓[/] {text(name)}: nothing found")
    for problem in problems:
        say(f"  [yellow]not read:[/] {text(problem)}")


def _plan(spec: StreamSpec) -> tuple[PlanFacts | None, str]:
    """(the plan, the reason why there is none)."""
    from streamwarden.lint.plan_reader import read_plan
    from streamwarden.services.analysis.planning import logical_plan

    try:
        return read_plan(logical_plan(spec), spec.sink.mode), ""
    except JobError as error:
        return None, str(error)


def _exit(findings: list[Finding], strict: bool) -> Exit:
    severities = {finding.severity for finding in findings}
    if Severity.ERROR in severities or (strict and Severity.WARNING in severities):
        return Exit.BAD
    return Exit.UNDECIDED if Severity.UNKNOWN in severities else Exit.OK
