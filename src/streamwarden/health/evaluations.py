"""When the streams were last judged, and by what. This answers who watches the health evaluation itself. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamwarden.health.check_relations import EVALUATION, EVERYWHERE
from streamwarden.health.verdict import Status, Verdict
from streamwarden.units import format_duration

INTERVAL: Final = 60.0
"""Seconds between two evaluations: of the health DAG always, of `streamwarden watch` by default."""
STALE_AFTER: Final = 3 * INTERVAL
"""Seconds after which a verdict no longer describes its stream: two evaluations may be late."""


class Evaluator(StrEnum):
    """The kinds of processes that judge the streams."""

    DAG = "dag"
    WATCH = "watch"
    SHELL = "shell"

    @property
    def shown(self) -> str:
        return _TITLES[self]


_TITLES: Final = {
    Evaluator.DAG: "the health DAG",
    Evaluator.WATCH: "`streamwarden watch`",
    Evaluator.SHELL: "`streamwarden check`",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRecord:
    """One completed evaluation of all streams.

    Args:
        at: when it was completed, Unix seconds.
        seconds: how long it took.
        streams: how many streams were judged.
        failures: how many files and services could not be read.
    """

    at: float
    evaluator: Evaluator
    host: str
    seconds: float
    streams: int
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRound:
    """Presentation of the last evaluation of all streams.

    Args:
        at: when it was completed, Unix seconds; None: none is recorded.
        late: it is too old to describe the streams, or there is none.
        text: the same in words.
        evaluator: the kind of process that judged the streams; None without an evaluation.
        host: of that process; empty without an evaluation.
        after_age: what the text says after the age, for a page that keeps the age current itself.
    """

    at: float | None
    late: bool
    text: str
    evaluator: Evaluator | None = None
    host: str = ""
    after_age: str = ""


def late_evaluation(records: Iterable[EvaluationRecord], now: float) -> Verdict | None:
    """CRITICAL if the health DAG judged the streams before, but not within `STALE_AFTER` seconds; otherwise None.

    Never OK: only the health DAG itself, when it has judged the streams again, shows that it works.
    """
    newest = max((record.at for record in records if record.evaluator is Evaluator.DAG), default=None)
    if newest is None or now - newest <= STALE_AFTER:
        return None
    return Verdict(
        stream=EVERYWHERE,
        check=EVALUATION,
        status=Status.CRITICAL,
        at=now,
        reason=f"the health DAG has not judged the streams for {format_duration(now - newest)}",
        advice="unpause the DAG `health`, and read the log of its task `evaluate`",
    )


def last_round(records: Iterable[EvaluationRecord], now: float) -> LastRound:
    """The newest of `records`, as a person should see it at `now` (Unix seconds)."""
    newest = max(records, key=lambda record: record.at, default=None)
    if newest is None:
        text = "No evaluation of all streams is recorded. Unpause the DAG `health`, or run `streamwarden watch`."
        return LastRound(at=None, late=True, text=text)
    age = max(0.0, now - newest.at)
    rest = f" by {newest.evaluator.shown} on {newest.host}."
    if age > STALE_AFTER:
        rest += " It is late: check that the DAG `health` is not paused and Airflow runs, or run `streamwarden watch`."
    text = f"Last evaluation {format_duration(age)} ago{rest}"
    return LastRound(
        at=newest.at,
        late=age > STALE_AFTER,
        text=text,
        evaluator=newest.evaluator,
        host=newest.host,
        after_age=rest,
    )
