"""The reference page of the metrics, from their declarations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from reference_pages.checks import anchor
from streamwarden.health.checks import CHECKS
from streamwarden.services.exporting.metrics import (
    CHECK_METRICS,
    CHECK_STATUS,
    COUNTS,
    FAILURES,
    METRICS,
    ROUND_AGE,
    ROWS_AGE,
    STATE_SETS,
    STREAM_INFO,
    Counts,
    Metric,
    Single,
)

_SERIES: Final = (
    sum(len(each.words) for each in STATE_SETS)
    + sum(len(each.kinds) for each in COUNTS)
    + len(METRICS)
    + len(CHECKS)  # their statuses
    + 1  # the information
)
"""Series of one stream, at most."""

_OF_THE_SCRAPE: Final = (ROUND_AGE, ROWS_AGE, FAILURES)
_OF_CHECKS: Final = frozenset(each.name for each in CHECK_METRICS.values())

_HEAD: Final = f"""\
# Metrics

`GET /streamwarden/metrics` of Airflow's API server gives every stream's numbers to Prometheus.
[How to scrape it](../how-to/metrics.md) has the token, the dashboard and the alert rules.

**Labels.** Every metric of a stream has the labels `stream` and `query`. `query` is empty for the stream itself. If a
script starts several queries, each of them has its own series with the query's name, and the rate of the stream is the
sum of theirs: select `query=""` before you add up streams.

**Missing values** are left out. A series that is not there means that the number is not known, or that the last
evaluation is too old to describe the stream; it is never 0 and never NaN.

**Format.** OpenMetrics if the Accept header asks for it, as Prometheus does; otherwise Prometheus' text format.

**Number of series.** At most {_SERIES} for each stream and for each query of several, and {len(_OF_THE_SCRAPE)} more.
No label holds a value that grows with time: labels hold names, owners, checks and words.
"""


def page() -> str:
    """The whole page, in Markdown."""
    own = [each for each in METRICS if each.name not in _OF_CHECKS]
    sections = (
        ("Streams", _table(own)),
        ("States", _states()),
        ("Checks", _checks()),
        ("The scrape itself", _singles(_OF_THE_SCRAPE)),
    )
    return "\n".join([_HEAD, *(f"## {title}\n\n{text}" for title, text in sections)])


def _table(metrics: Iterable[Metric]) -> str:
    rows = [f"| `{each.sample}` | {_kind(each)} | {each.unit} | {each.help}{_whole(each)} |" for each in metrics]
    rows += [_counted(each) for each in COUNTS]
    info = f"| `{STREAM_INFO.name}` | info | | {STREAM_INFO.help}: `dag_id`, `owner` |"
    return "\n".join(["| metric | type | unit | meaning |", "|---|---|---|---|", *rows, info]) + "\n"


def _counted(counts: Counts) -> str:
    kinds = ", ".join(f"`{kind}`" for kind in counts.kinds)
    return f"| `{counts.name}` | gauge |  | {counts.help} (label `{counts.label}`: {kinds}) |"


def _kind(metric: Metric) -> str:
    return "counter" if metric.counter else "gauge"


def _whole(metric: Metric) -> str:
    return "" if metric.of_queries else " (streams only)"


def _states() -> str:
    head = "Each has one series for each word. The label with the word has the name of the metric:\n"
    example = f'`{STATE_SETS[0].name}{{{STATE_SETS[0].name}="down"}} == 1` finds the streams that are down.\n'
    rows = [f"| `{each.name}` | {each.help} | {', '.join(f'`{word}`' for word in each.words)} |" for each in STATE_SETS]
    return "\n".join([head + example, "| metric | meaning | words |", "|---|---|---|", *rows]) + "\n"


def _checks() -> str:
    head = (
        f"`{CHECK_STATUS.name}` is the verdict of each check (label `check`): 0 is OK, 1 UNKNOWN (no data), 2 WARNING\n"
        "and 3 CRITICAL. It takes the thresholds that are in force for the stream into account. A check that has\n"
        "nothing to judge, such as the state of a query that keeps none, has no series.\n"
        "These metrics have the values. One without a unit is a count, or a multiple of what the check names.\n"
    )
    rows = [
        f"| `{metric.name}` | {metric.unit} | [{each.title}](checks.md#{anchor(each)}) | {each.target} |"
        for each in CHECKS
        if (metric := CHECK_METRICS.get(each.name)) is not None
    ]
    return "\n".join([head, "| metric | unit | check | target |", "|---|---|---|---|", *rows]) + "\n"


def _singles(singles: Iterable[Single]) -> str:
    rows = [f"| `{each.name}` | {each.unit} | {each.help} |" for each in singles]
    return "\n".join(["| metric | unit | meaning |", "|---|---|---|", *rows]) + "\n"
