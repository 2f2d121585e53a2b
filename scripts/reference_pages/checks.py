"""The reference page of the checks and the default `config/thresholds.yaml`, from what the checks declare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from streamwarden.health.check import Check, Threshold, ValueUnit
from streamwarden.health.checks import CHECKS
from streamwarden.health.signals.hysteresis import MEMORY, RAISE, RECENT
from streamwarden.health.signals.sampled_hysteresis import LOWER_AFTER
from streamwarden.units import SIZES

_STEPS: Final = {
    ValueUnit.BYTES: SIZES,
    ValueUnit.SECONDS: ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"), (0.001, "ms")),
}

_ESSENTIAL: Final = ", ".join(f"`{each.name}`" for each in CHECKS if each.essential)

_RESTS: Final = (
    " These facts change slowly. While the verdict is OK, evaluations read them every five to ten minutes "
    "(`measured_at` in the evidence). Otherwise each evaluation reads them, and `streamwarden check` always does."
)

_INTRODUCTION: Final = f"""\
# Checks

A check evaluates one stream's recent measurements and gives a verdict: `OK`, `WARNING`, `CRITICAL` or `UNKNOWN`.
`UNKNOWN` means that there is no data to judge. It is never the same as `OK`, and it neither opens nor resolves an
incident.

**The health of a stream** is the worst alarm of its checks. Without an alarm it is `OK`, or `UNKNOWN` while one of the
essential checks has no data: {_ESSENTIAL}.
The other checks need rows or history that a quiet or a young stream does not have; `streamwarden check NAME` shows
them.

**Several queries.** If a script starts several queries, each is judged, as `STREAM/QUERY`. Memory usage, restart loops,
unreachable services and a dead driver are judged once, for their driver.

**Boundaries.** Below `warning` is OK. From `warning` to `critical`, both included, is WARNING: exactly 1 GB of state is
WARNING, and so is exactly 5 GB. Above `critical` is CRITICAL. For checks that alarm on small values (time left), the
order is reversed. GB is 10^9 bytes.

**Hysteresis.** Checks that judge each batch (or each sample) raise a status when {RAISE} of the {RECENT}
newest observations reach it, and lower it when all {RECENT} are below it. Each evaluation replays the {MEMORY} newest.
The value of the verdict is the third largest of the {RECENT} newest. One or two observations alone never alarm: they
are OK if they are good, else UNKNOWN. An incident is resolved after three OK verdicts in a row.

Checks that measure a value once in each evaluation (backlog, replay debt, late rows, partition skew, growth) lower an
alarm when {LOWER_AFTER} evaluations in a row are below it. Replay debt and growth raise one when three of the five
newest evaluations reach it. Until three evaluations are known, the newest one counts.

**Streams that do not run.** Checks that judge batches raise no alarm while no driver runs: the batches describe a
stream that ran. Their verdict is `UNKNOWN`, and `driver_down` gives the cause. A run that came to its end is judged.

**Causes and consequences.** One dead stream is one incident. While an incident of a cause is open for the same stream,
the incidents of the checks that may be a consequence of it are listed inside it. They send no notification, and
`status` does not count them. When the cause is resolved, its consequences are resolved with it if they are good again.
A quarter of an hour later those that are still bad alarm by themselves. `supervision` is the incident of a stream that
its supervisor left down, and `airflow` that of a component of Airflow.

**A stream that was stopped on purpose** is silent: its incidents are resolved when the stop is requested, and none is
opened or sent until a person starts the stream.

**Old numbers.** A batch that hangs sends no report, so the newest reports look good while nothing happens. When work
has waited for two minutes more than a batch takes and nothing was committed, checks that read reports give `UNKNOWN`
instead of `OK`; their alarms stay. An idle stream, and one that was stopped on request, has no work that waits.

**Resets.** A new query id (a new checkpoint) is a new baseline for every check. A fall of the watermark is a new
baseline for its check, and a lasting fall to less than half is one for the growth of state.

**Setting thresholds.** `config/thresholds.yaml` sets them for all streams, `health.thresholds` in a stream's file for
one:

```yaml
health:
  thresholds:
    state_size: {{warning: 1 GB, critical: 5 GB}}
```

`streamwarden validate` refuses unknown names, wrong units and limits in the wrong order.
"""


def checks_page(checks: Sequence[Check] = CHECKS) -> str:
    """The reference page, Markdown."""
    table = ["| check | target | warning | critical |", "|---|---|---|---|"]
    for check in checks:
        warning, critical = (_limit(check, name) for name in ("warning", "critical"))
        table.append(f"| [{check.title}](#{anchor(check)}) | {check.target} | {warning} | {critical} |")
    return "\n".join([_INTRODUCTION, "## All checks", "", *table, "", *(_section(check) for check in checks)])


def thresholds_file(checks: Sequence[Check] = CHECKS) -> str:
    """The default `config/thresholds.yaml`: every threshold of every check at its default."""
    lines = [
        "# Thresholds of the health checks, for all streams. docs/reference/checks.md says what each check measures.",
        "# What is left out keeps its default; a stream overrides them under health.thresholds in its own file.",
        "# Up to `critical`, inclusive, is WARNING; beyond it is CRITICAL. GB is 10^9 bytes.",
    ]
    for check in checks:
        lines += ["", f"{check.name}:"]
        lines += [f"  {each.name}: {written(each.default, each.unit)}  # {each.meaning}" for each in check.thresholds]
    return "\n".join(lines) + "\n"


def written(value: float, unit: ValueUnit) -> str:
    """`value` as a person would write it in YAML, in the largest unit that is exact: `5 GB`, `10 ms`, `0.1 %`."""
    if unit is ValueUnit.SHARE:
        return f"{round(value * 100, 9):g} %"
    for step, name in _STEPS.get(unit, ()):
        count = round(value / step, 9)
        if count >= 1 and count == round(count):
            return f"{count:.0f} {name}"
    return f"{value:g}"


def _limit(check: Check, name: str) -> str:
    threshold = next(each for each in check.thresholds if each.name == name)
    value = written(threshold.default, threshold.unit)
    if name == "warning":
        return f"from {value}" if check.more_is_worse else f"{value} or less"
    return f"above {value}" if check.more_is_worse else f"below {value}"


def _section(check: Check) -> str:
    parts = [
        f"## {check.title}",
        f"`{check.name}`, in {check.unit}. Target: {check.target}.",
        f"**Reads.** {check.reads}{_RESTS if check.rests else ''}",
        f"**UNKNOWN.** {check.unknown}",
        f"**Advice.** {check.advice}",
        f"**May be a consequence of.** {_causes(check)}",
        f"**Source.** {check.source}",
        "\n".join(["| threshold | default | meaning |", "|---|---|---|", *_rows(check.thresholds)]),
    ]
    return "\n\n".join(parts) + "\n"


def _causes(check: Check) -> str:
    return ", ".join(f"`{name}`" for name in check.consequence_of) or "Nothing: it is always a root incident"


def _rows(thresholds: Iterable[Threshold]) -> list[str]:
    return [f"| `{each.name}` | {written(each.default, each.unit)} | {each.meaning} |" for each in thresholds]


def anchor(check: Check) -> str:
    """Where the check is on the page."""
    return check.title.lower().replace(" ", "-")
