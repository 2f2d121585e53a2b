"""Texts on the pages: commands that are links, moments, what a drill breaks, and numbers of three digits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.airflow.web.rendering import marked_up, rate
from streamwarden.airflow.web.words.commands import pieces
from streamwarden.airflow.web.words.drills import broken_words, fault_words, fits, has_words
from streamwarden.airflow.web.words.folds import FEW, IncidentFold, folded_incidents
from streamwarden.airflow.web.words.moments import due_words, since_words
from streamwarden.drills.faults import FAULTS
from streamwarden.drills.spec import DrillSpec
from streamwarden.health.incidents.consequences import IncidentGroup
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status

NOON = 1_795_608_000.0
"""2026-11-25T12:00:00Z, a Wednesday."""


@pytest.mark.parametrize(
    ("command", "path", "label"),
    [
        ("drill show kill-2026.1", "/drills/kill-2026.1", "its report"),
        ("drill run kill_driver", "/drills?q=kill_driver", "the drill kill_driver"),
        ("start orders", "/streams/orders", "Start on the page of orders"),
        ("status", "/", "the fleet"),
        ("incident ack 0a1b", "/incidents/0a1b", "its page"),
        ("incidents --all", "/incidents?past=true", "all incidents"),
    ],
)
def test_a_command_that_a_page_replaces_is_a_link_to_it(command: str, path: str, label: str) -> None:
    before, link, after = pieces(f"first `streamwarden {command}`, then wait")
    assert (before.text, after.text) == ("first ", ", then wait")
    assert (link.path, link.text, link.command) == (path, label, f"streamwarden {command}")


@pytest.mark.parametrize(
    ("command", "read"),
    [
        ("start orders", "Use Start on the page of orders."),
        ("drill run kill", "Run the drill kill."),
        ("status", "Open the fleet."),
        ("lint orders", "Run streamwarden lint orders."),
    ],
)
def test_what_a_page_replaces_is_used_or_opened_and_what_it_runs_is_run(command: str, read: str) -> None:
    assert "".join(piece.text for piece in pieces(f"Run `streamwarden {command}`.")) == read
    assert "".join(piece.text for piece in pieces(f"It has run. `streamwarden {command}`")).startswith("It has run. ")


@pytest.mark.parametrize(
    "code", ["streamwarden start NAME", "streamwarden lint orders", "streamwarden start ../x", "minBatches: 3"]
)
def test_any_other_text_between_backticks_is_code(code: str) -> None:
    _, shown, _ = pieces(f"`{code}`")
    assert (shown.text, shown.code, shown.path) == (code, True, None)


def test_a_text_is_escaped_wherever_it_stands() -> None:
    html = marked_up("<b>5 s</b> `<i>` and `streamwarden start orders`", "/p")
    assert html == (
        "&lt;b&gt;5\N{NO-BREAK SPACE}s&lt;/b&gt; <code>&lt;i&gt;</code> and "
        '<a href="/p/streams/orders">Start on the page of orders</a>'
    )
    assert marked_up("`streamwarden start orders`") == "<code>streamwarden start orders</code>"
    assert "hunter2" not in marked_up("password=hunter2-hunter2 `password=hunter2-hunter2`", "")
    assert marked_up("`a\u202eb`") == "<code>a\\u202eb</code>"


@pytest.mark.parametrize(
    ("ago", "said"),
    [(60, "11:59"), (13 * 3600, "24 Nov 23:00"), (300 * 86400, "29 Jan 2026 12:00")],
)
def test_a_moment_has_its_day_unless_that_is_today(ago: float, said: str) -> None:
    assert since_words(NOON - ago, NOON) == said


def drill(**more: Any) -> DrillSpec:
    return DrillSpec(**{"name": "kill", "stream": "orders", "fault": FAULTS["kill_driver"](kind="kill_driver"), **more})


def test_a_drill_says_what_it_breaks_and_how() -> None:
    state = FAULTS["kill_driver"](kind="kill_driver", moment="after_state")  # type: ignore[call-arg]
    restart = FAULTS["controlled_restart"](kind="controlled_restart")
    assert fault_words(drill()) == "a crash in mid-batch"
    several = drill(fault=None, faults=(state, restart), description="Before the holidays")
    assert fault_words(several) == "a crash in mid-batch (moment: after state), then a planned restart"
    assert broken_words(several) == "a fork of orders"
    assert fits(several, "PLANNED holidays orders")
    assert not fits(several, "planned tuesday")
    assert has_words("Kill orders", "orders kill")


def test_a_moment_that_is_due_has_its_day_of_the_week() -> None:
    assert due_words(NOON + 4 * 86400 + 17 * 3600) == "Mon 30 Nov 05:00"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0, "0"), (3.21, "3.2"), (12.0, "12.0"), (99.97, "100"), (457.4, "457"), (999.7, "1.0k"),
     (12_345, "12.3k"), (1.24e6, "1.2M")],
)  # fmt: skip
def test_a_rate_has_three_digits_at_most(value: float | None, shown: str) -> None:
    assert rate(value) == shown


def group(stream: str, reason: str = "slow", **more: Any) -> IncidentGroup:
    return IncidentGroup(
        Incident(
            incident_id=stream, stream=stream, check="lag", status=Status.WARNING, opened_at=float(len(stream)),
            updated_at=9.0, reason=reason, **more,
        )
    )  # fmt: skip


def test_equal_open_incidents_are_folded_and_others_are_not() -> None:
    same = [group("a" * number) for number in range(1, FEW + 1)]
    other, over = group("other", "slower"), [group(f"r{number}", resolved_at=9.0) for number in range(FEW)]
    fold, *rest = folded_incidents([*same, other, *over], ())
    assert isinstance(fold, IncidentFold)
    assert (list(fold.groups), fold.opened_at, fold.judged_at, rest) == (same, 1.0, 9.0, [other, *over])
    assert folded_incidents([*same, other], [fold.name])[1:] == [*same, other]
    worse = replace(same[0], root=replace(same[0].root, status=Status.CRITICAL))
    assert folded_incidents([worse, *same[1:]], ()) == [worse, *same[1:]], "another status is another line"
