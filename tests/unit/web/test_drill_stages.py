"""The course of a drill on its page: its stages in order, each with how long it took and how the stream stood."""

from __future__ import annotations

import pytest

from streamwarden.drills.reporting.report import build_report
from streamwarden.drills.reporting.stages import stages
from streamwarden.drills.reporting.timeline import Moment, Phase
from support.streams.stored_journals import stored


def test_the_stages_of_a_real_drill_are_in_order_with_their_times_and_phases() -> None:
    course = stages(build_report(*stored("kill_driver")).timeline)
    found = [(stage.moment.label, stage.phase, stage.lasted) for stage in course]
    assert [stage.moment.at for stage in course] == sorted(stage.moment.at for stage in course)
    assert [phase for _, phase, _ in found] == [
        *[Phase.UP] * 2,
        *[Phase.DOWN] * 3,
        *[Phase.CATCHING_UP] * 2,
        *[Phase.ENDED] * 3,
    ]
    assert found[-1] == ("verdict", Phase.ENDED, None)
    broken = sum(lasted or 0.0 for _, phase, lasted in found if phase is Phase.DOWN)
    assert broken == pytest.approx(31.9, abs=0.1)


def test_a_bar_is_as_long_as_its_stage_and_a_short_one_can_be_seen() -> None:
    course = stages([Moment(at, "x", label="x") for at in (0.0, 50.0, 150.0, 150.0, 151.0)])
    assert [stage.percent for stage in course] == [50.0, 100.0, 1.0, 1.0, 1.0]


def test_the_tail_of_judging_is_cut_and_does_not_shrink_what_happened_to_the_stream() -> None:
    ended = Moment(20.0, "x", label="caught up", phase=Phase.ENDED)
    course = stages([Moment(0.0, "x", label="began"), ended, Moment(620.0, "x", label="verdict")])
    assert [(stage.percent, stage.cut) for stage in course] == [(100.0, False), (100.0, True), (1.0, False)]


def test_moments_without_a_label_are_in_the_table_alone() -> None:
    course = stages([Moment(1.0, "x", label="a"), Moment(2.0, "healed"), Moment(4.0, "x", label="b")])
    assert [(stage.moment.label, stage.lasted) for stage in course] == [("a", 3.0), ("b", None)]


def test_less_than_two_moments_are_no_course() -> None:
    assert stages([Moment(1.0, "began", label="began"), Moment(2.0, "no label")]) == []
