"""What a person sees of a round over many streams."""

from __future__ import annotations

from streamwarden.health.evaluations import Evaluator
from streamwarden.health.verdict import Status, Verdict
from streamwarden.services.monitoring.health_monitor import Evaluation, StreamHealth
from streamwarden.services.monitoring.round_entries import Entry, entries_of, fold
from streamwarden.services.monitoring.rounds import run_round
from streamwarden.services.workspace import Workspace


def entry(title: str, status: Status, *, judged: bool = True) -> Entry:
    return Entry(title=title, status=status, lines=(f"{title} is {status}",), judged=judged)


def test_all_healthy_streams_share_one_entry() -> None:
    """Sixty healthy streams cost one task instance, which names them all."""
    (shown,) = fold([entry(f"s{index:02d}", Status.OK) for index in range(60)])
    assert (shown.title, shown.status) == ("60 streams: healthy", Status.OK)
    assert shown.lines == tuple(f"s{index:02d}" for index in range(60))


def test_each_stream_that_is_not_healthy_has_its_own_entry_and_the_worst_comes_first() -> None:
    statuses = {"d": Status.OK, "c": Status.UNKNOWN, "b": Status.WARNING, "e": Status.CRITICAL, "a": Status.CRITICAL}
    shown = fold([entry(name, status) for name, status in statuses.items()])
    assert [each.title for each in shown] == ["a", "e", "b", "c", "1 stream: healthy"]


def test_no_stream_at_all_shows_nothing() -> None:
    assert fold([]) == ()


def evaluation(**statuses: Status) -> Evaluation:
    def health(name: str, status: Status) -> StreamHealth:
        verdict = Verdict(stream=name, check="restart_loop", status=status, at=0, reason="why", advice="what")
        return StreamHealth(stream=name, verdicts=(verdict,))

    return Evaluation(at=0, streams={name: health(name, status) for name, status in statuses.items()})


def test_a_stream_that_should_not_run_is_neither_healthy_nor_alarming() -> None:
    """Never-started and stopped streams share one entry that is not judged, with the reason of each."""
    judged = evaluation(fresh=Status.UNKNOWN, halted=Status.OK, well=Status.OK)
    shown = fold(entries_of(judged, {}, {"fresh": "never started", "halted": "stopped on purpose"}))
    assert [(each.title, each.judged) for each in shown] == [
        ("1 stream: healthy", True),
        ("2 streams: not judged", False),
    ]
    assert shown[-1].lines == ("fresh: never started", "halted: stopped on purpose")


def test_an_alarm_of_a_stream_that_should_not_run_is_shown() -> None:
    (shown,) = fold(entries_of(evaluation(fresh=Status.CRITICAL), {}, {"fresh": "never started"}))
    assert (shown.title, shown.critical) == ("fresh", ("CRITICAL restart_loop: why Advice: what",))


def test_a_stream_that_never_started_is_listed_as_not_judged(space: Workspace) -> None:
    (shown,) = run_round(space, Evaluator.DAG).entries
    assert shown == Entry(
        title="1 stream: not judged", status=Status.UNKNOWN, lines=("counted: never started",), judged=False
    )
