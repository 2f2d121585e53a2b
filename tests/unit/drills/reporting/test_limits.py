"""What a drill cannot prove by its nature is in its report, and in the documentation."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.drills.records.audited import AuditRecord
from streamwarden.drills.records.sections import OracleKind
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.reporting.limits import LIMITS, limits_of
from streamwarden.drills.reporting.report import build_report
from streamwarden.drills.state import RunState
from streamwarden.verification.comparing.balance import Outcome
from support.simulated.drill_specs import drill
from support.simulated.drill_world import PERFECT, World

DOCS = Path(__file__).parents[4] / "docs"
SAID_BY_ITSELF = {
    "What a job keeps outside of the drill's folder": "drills.records.outside",
    "What wrote a file, if it was not the job's Python code in the driver.": "drills.records.outside",
    "That a function writes a batch once, if it never got one again.": "drills.records.exercised",
}
"""Limits that a drill finds out about itself, and says in its first sentence -> the module with the words."""


def plain(text: str) -> str:
    return " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).split())


TWIN, VERIFICATION = (plain((DOCS / name).read_text()) for name in ("how-to/twin.md", "explanation/verification.md"))


def test_each_limit_of_the_twin_in_the_documentation_is_said_in_reports() -> None:
    text = (DOCS / "how-to/twin.md").read_text()
    section = text.partition("## What it cannot prove")[2].partition("\n## ")[0]
    bold = [plain(item) for item in re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE)]
    known = (*SAID_BY_ITSELF, *(limit.item for limit in LIMITS))
    unsaid = [item for item in bold if not item.startswith(known)]
    assert (len(bold) > 9, unsaid) == (True, [])


def test_each_limit_of_the_oracles_in_the_documentation_is_said_in_reports() -> None:
    uncovered = [text.partition("|")[0].lower() for text in VERIFICATION.split("**Not covered:**")[1:]]
    unsaid = [text for text in uncovered if not any(limit.item.lower() in text for limit in LIMITS)]
    assert (len(uncovered) > 5, unsaid) == (True, [])


def test_each_limit_that_reports_name_is_in_the_documentation() -> None:
    assert [limit.item for limit in LIMITS if limit.item not in f"{TWIN} {VERIFICATION}"] == []


BOTH = TwinReport(first=0, last=1, seconds=1, twins=1, key=(), key_from="", left_out=(), alone=False, outcome=PERFECT)
ALONE = replace(BOTH, alone=True)
OF_SCRIPT = replace(ALONE, outcome=replace(PERFECT, notes={"queries": {}}))


@pytest.fixture(scope="module")
def passed() -> RunState:
    """A drill by the twin alone, of a fork of files that began from nothing."""
    run = World(sink="parquet", twin=ALONE).engine(drill()).run("kill_driver")
    state = RunState.of(run)
    assert state.fork is not None
    return replace(state, twin=ALONE, fork=replace(state.fork, batch=None, what="file", oracles=(OracleKind.TWIN,)))


def fork(state: RunState, **changes: object) -> RunState:
    assert state.fork is not None
    return replace(state, fork=replace(state.fork, **changes))  # type: ignore[arg-type]


def live(state: RunState) -> RunState:
    audit = AuditRecord(outcome=Outcome.BALANCED, sentence="", after=0, upto=1, records=1)
    return replace(state, fork=None, twin=None, live=state.fork, audit=audit, reconciliation=None)


CHANGES: dict[str, Callable[[RunState], RunState]] = {
    "twin alone": lambda state: state,
    "beside an oracle": lambda state: fork(replace(state, twin=BOTH), oracles=(OracleKind.JOB, OracleKind.TWIN)),
    "rewound": lambda state: fork(state, batch=3),
    "watermark": lambda state: replace(state, twin=replace(ALONE, watermarks=1)),
    "watermarks": lambda state: replace(state, twin=replace(ALONE, watermarks=2)),
    "function": lambda state: replace(state, twin=replace(ALONE, reads_again=True)),
    "script": lambda state: replace(state, twin=OF_SCRIPT),
    "topic and oracle": lambda state: fork(state, what="record", oracles=(OracleKind.JOB,)),
    "repeats": lambda state: replace(state, reconciliation=replace(PERFECT, repeated=3)),
    "live": live,
}
OF_FORKS = set(CHANGES) - {"live"}
BY_TWIN_ALONE = OF_FORKS - {"beside an oracle"}


@pytest.mark.parametrize(
    ("said", "by"),
    [
        ("an error that each run makes", BY_TWIN_ALONE),
        ("what the job loses in each restart", {"rewound"}),
        ("only at its very first start", BY_TWIN_ALONE - {"rewound"}),
        ("that no watermark is too high", {"watermarks"}),
        ("no last batch without data", {"watermark", "watermarks"}),
        ("recognizes its twin", OF_FORKS),
        ("what the function of foreachBatch writes elsewhere", {"function"}),
        ("agree with the drivers' lives", {"script"}),
        ("the partitions were read in turn", {"topic and oracle"}),
        ("right to the second", {"beside an oracle", "topic and oracle"}),
        ("kept its modification time", OF_FORKS - {"topic and oracle"}),
        ("each repeated record", {"repeats"}),
        ("did not read the output", {"beside an oracle", "topic and oracle"}),
        ("short connections of Python's workers", OF_FORKS),
        ("did not rewrite its input", OF_FORKS),
        ("an audit trusts its code", {"live"}),
    ],
)
def test_a_limit_is_said_where_it_concerns_the_drill_and_nowhere_else(
    passed: RunState, said: str, by: set[str]
) -> None:
    found = {name for name, change in CHANGES.items() if any(said in limit for limit in limits_of(change(passed)))}
    assert found == by


def test_a_drill_that_compared_nothing_has_no_limits(passed: RunState) -> None:
    assert list(limits_of(replace(passed, reconciliation=None))) == []


def test_the_report_has_them() -> None:
    run = World(sink="parquet", twin=ALONE).engine(drill()).run("kill_driver")
    rows = [row.value for row in build_report(run, []).rows if row.name == "not proven"]
    assert any("did not rewrite its input" in row for row in rows)
