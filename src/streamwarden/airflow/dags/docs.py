"""The documentation of a DAG in the UI: Markdown generated from the specs, so that it cannot become outdated."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from streamwarden.drills.records.sections import DrillTarget
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import ConfigError
from streamwarden.health.checks import CHECKS
from streamwarden.health.thresholds import Thresholds
from streamwarden.lint.finding import Finding
from streamwarden.redaction import redacted, redacted_text
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_duration

_HOW_TO: Final = """\
While the driver runs, the task `run` is deferred, so it holds no worker slot; its log shows the driver's log. A note on
the task says that the stream waits for its next restart. While the stream is stopped on purpose, `run` is skipped and
the task `stopped` is deferred. If `run` is red, the stream stays down until a person starts it.

If you clear the task, or restart any part of Airflow, it reattaches to the running driver. To act on the stream, use
the DAGs `stop_stream`, `restart_stream`, `start_stream`, or the command `streamwarden`. Marking the task `run` failed
requests a stop of the stream at a batch boundary.
"""


def stream_doc(spec: StreamSpec, thresholds: Thresholds | ConfigError, findings: Sequence[Finding] = ()) -> str:
    """Documentation of a stream: purpose, how it runs, lint findings, specification and thresholds."""
    policy = spec.restart
    budget = f"{policy.budget.count} in {format_duration(policy.budget.per)}"
    return "\n\n".join(
        [
            f"### {spec.name}",
            _text(spec.description or "No description."),
            _HOW_TO,
            "After its first failure the stream is restarted at once if it had committed a batch, otherwise after "
            f"{format_duration(policy.initial)}. Each further failure makes the wait {policy.factor:g} times as long, "
            f"up to {format_duration(policy.cap)}. The budget is {budget}; {format_duration(policy.healthy_after)} "
            "without a failure reset it. When the budget is used up, or after a failure that a restart cannot cure, "
            "this DAG fails and pauses itself, and an incident says what to do. Unpause it to try again.",
            "#### Lint",
            _findings(findings),
            "#### Specification",
            _table(("key", "value"), _flatten(redacted(asdict(spec)))),
            "#### Thresholds",
            _threshold_table(spec, thresholds),
        ]
    )


def broken_doc(name: str, error: ConfigError) -> str:
    """Documentation of a broken file: the file, the key, and the allowed values."""
    return "\n\n".join(
        [
            f"### The configuration of {name} is broken",
            "No driver is launched with it. A driver that already runs continues and is followed.",
            f"```\n{redacted_text(str(error))}\n```".replace("````", "```"),
            "Fix the file, run `streamwarden validate`, then unpause or clear this DAG.",
        ]
    )


_BROKEN: Final = {DrillTarget.FORK: "a fork of", DrillTarget.PRODUCTION: "the live stream"}


def drill_doc(spec: DrillSpec) -> str:
    """Documentation of a drill: its fault, its hypothesis, and how it is judged."""
    return "\n\n".join(
        [
            f"### {spec.name}",
            _text(spec.description or "No description."),
            f"Breaks {_BROKEN[spec.target]} **{spec.stream}** by **{spec.breaks}**. The steps are the tasks: "
            f"{', '.join(step.replace('_', ' ') for step in spec.steps)}. Healing and the report always run. The task "
            "of the report fails unless the drill completed and nothing deviated, and its message says why.",
            "#### Specification",
            _table(("key", "value"), _flatten(redacted(asdict(spec)))),
        ]
    )


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "No findings in the stream's file and its job. `streamwarden lint` also checks what the stream has done."
    rows = [
        (f"{finding.rule} {finding.severity}", f"{finding.observed} ({finding.origin}). {finding.remedy}")
        for finding in findings
    ]
    return _table(("rule", "finding and remedy"), rows)


def _threshold_table(spec: StreamSpec, thresholds: Thresholds | ConfigError) -> str:
    if isinstance(thresholds, ConfigError):
        return f"The thresholds cannot be read: {_text(str(thresholds))}"
    in_force = thresholds.with_overrides(spec.health.thresholds)
    rows = []
    for check in CHECKS:
        units = {threshold.name: threshold.unit for threshold in check.thresholds}
        own = spec.health.thresholds.get(check.name, {})
        shown = [
            f"{name} {units[name].show_limit(value)}" + (" (this stream's own)" if name in own else "")
            for name, value in in_force.of(check.name).items()
        ]
        rows.append((check.name, "; ".join(shown)))
    return _table(("check", "thresholds"), rows)


def _flatten(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, item in value.items():
        if isinstance(item, tuple | list) and item and all(isinstance(part, Mapping) for part in item):
            item = {str(number): part for number, part in enumerate(item, start=1)}
        if isinstance(item, Mapping):
            rows += _flatten(item, f"{prefix}{key}.")
        elif item not in (None, "", (), []):
            rows.append((f"{prefix}{key}", ", ".join(map(str, item)) if isinstance(item, tuple | list) else str(item)))
    return rows


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    lines += [f"| `{key}` | {_cell(value)} |" for key, value in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|").replace("\n", " ")


def _text(text: str) -> str:
    """`text` from a YAML file, without secrets and harmless in Markdown that is rendered as HTML."""
    return redacted_text(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
