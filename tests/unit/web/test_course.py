"""The drawing of a drill's course: every label can be read, whatever the moments are."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from streamwarden.airflow.web.timeline_drawing import FIRST, LONG, NEAREST, STEP, WIDTH, Course, course
from streamwarden.drills.reporting.report import build_report
from streamwarden.drills.reporting.timeline import Moment, Phase
from support.stored_journals import stored

LABELS = st.text(alphabet="abcdefgh ij", min_size=1, max_size=24)
GAPS = st.one_of(st.just(0.0), st.floats(0, 1), st.floats(0, 100), st.floats(0, 1e5))


@st.composite
def moments(draw: st.DrawFn) -> list[Moment]:
    """Between two and twenty moments, with equal ones and long waits among them."""
    labels = draw(st.lists(LABELS, min_size=2, max_size=20))
    at, found = 1.8e9, []
    for label in labels:
        at += draw(GAPS)
        phase = draw(st.sampled_from([None, *Phase]))
        found.append(Moment(at, label, since=draw(st.sampled_from([None, at - 1.8e9])), label=label, phase=phase))
    return found


def drawn(found: list[Moment]) -> Course:
    made = course(found)
    assert made is not None
    return made


@given(moments())
def test_no_label_overlaps_another_one(found: list[Moment]) -> None:
    for one, other in combinations(drawn(found).marks, 2):
        beside = one.right <= other.left or other.right <= one.left
        assert beside or abs(one.y - other.y) >= STEP


@given(moments())
def test_no_line_to_a_label_crosses_another_label(found: list[Moment]) -> None:
    for one, other in combinations(drawn(found).marks, 2):
        for line, label in ((one, other), (other, one)):
            assert not (label.left < line.x < label.right and label.y <= line.y)


@given(moments())
def test_every_label_is_inside_the_drawing(found: list[Moment]) -> None:
    made = drawn(found)
    for mark in made.marks:
        assert 0 <= mark.left < mark.right <= WIDTH + 0.01
        assert FIRST <= mark.y < made.height


@given(moments())
def test_the_moments_stand_in_their_order_and_apart(found: list[Moment]) -> None:
    made = drawn(found)
    assert all(after.x - before.x >= NEAREST - 0.01 for before, after in pairwise(made.marks))
    assert [(span.left, span.right) for span in made.spans] == [(a.x, b.x) for a, b in pairwise(made.marks)]


def test_a_real_drill_is_drawn_to_scale() -> None:
    """75 s to the fault, 32 s until the stream was back: the first stretch is that much longer."""
    marks = {
        mark.label.split(" s ")[1]: mark.x for mark in drawn(list(build_report(*stored("kill_driver")).timeline)).marks
    }
    before, down = marks["fault"] - marks["drill began"], marks["first new commit"] - marks["launched again"]
    assert 2.2 < before / down < 2.6


def test_the_line_shows_how_the_stream_stands() -> None:
    spans = drawn(list(build_report(*stored("kill_driver")).timeline)).spans
    assert [span.phase for span in spans] == [
        *[Phase.UP] * 2,
        *[Phase.DOWN] * 3,
        *[Phase.CATCHING_UP] * 2,
        *[Phase.ENDED] * 2,
    ]


def test_a_wait_for_a_person_is_cut_and_a_short_drill_is_not() -> None:
    times = (0.0, 10.0, 10.0 + 3600.0, 3640.0)
    made = drawn([Moment(at, "x", label="x") for at in times])
    assert [span.cut for span in made.spans] == [False, True, False]
    twice = drawn([Moment(at, "x", label="x") for at in (0.0, 5e4, 5e4 + 100, 5e4 + 1000, 5e4 + 1050)])
    assert [span.cut for span in twice.spans] == [True, False, True, False]
    short = drawn([Moment(at, "x", label="x") for at in (0.0, 1.0, 1.0 + LONG * 2)])
    assert not short.cut


def test_less_than_two_moments_are_no_course() -> None:
    assert course([Moment(1.0, "began", label="began"), Moment(2.0, "no label")]) is None


def test_a_secret_in_a_moment_is_not_drawn() -> None:
    made = drawn([Moment(1.0, "password=hunter2-hunter2", label="a"), Moment(2.0, "x", label="b")])
    assert "hunter2" not in made.marks[0].title
