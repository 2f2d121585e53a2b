"""A known way to die: checkpoints grow to 30-60 s under batches of 4 s, until results are four hours late.

The stream is simulated batch by batch: files of one second of input arrive each second, a batch reads the four that its
limit allows and takes 2 s of work and its checkpoint. The health evaluation runs every two minutes, half as often as by
default, on what the store would hold. What counts is how long before the four-hour delay a person hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count

import pytest

from streamwarden.health.evaluate import evaluate
from streamwarden.health.incidents.consequences import grouped
from streamwarden.health.incidents.incident import Incident, IncidentPolicy, advance
from streamwarden.health.incidents.notification_due import due
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Batch, StateInstance, WaitingInput, Window
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import TriggerSpec
from support.streams.health_windows import batch_of, driver, log, report, spec

HOUR = 3600.0
START = 1_700_000_000.0
LATE = 4 * HOUR
EVERY = 120.0
FILES = 4
SPEC = spec(trigger=TriggerSpec(processing_time=4.0), source=FilesSource(path="/data/in", max_files_per_trigger=FILES))


@dataclass
class History:
    """Seconds since the start at which things were first said; the delay at that moment."""

    told: dict[tuple[str, Status], float] = field(default_factory=dict)
    delay: dict[tuple[str, Status], float] = field(default_factory=dict)
    messages: list[tuple[float, str, Status]] = field(default_factory=list)
    late_after: float = 0.0


def stream(checkpoint: Callable[[float], float]) -> Iterator[tuple[Batch, float]]:
    """(batch, delay in seconds of input once it is committed); `checkpoint` gives its duration at a time."""
    now, read = 0.0, 0.0
    for number in count():
        now = max(now, read + FILES)  # waits until its files are there
        seconds = checkpoint(now)
        duration = round(1000 * (2 + seconds))
        progress = report(
            number,
            START + now,
            top={"batchDuration": duration, "numInputRows": 4_000},
            durations={"walCommit": 100, "commitOffsets": 100, "addBatch": duration - 200},
            operator={"commitTimeMs": round(2_000 * (seconds - 0.2))},  # two tasks at a time
            watermark=START + read,
        )
        now += max(4.0, duration / 1000)
        read += FILES
        yield batch_of(progress), now - read


@cache
def live(growth: str) -> History:
    """Run the stream until it is four hours late, and evaluate it meanwhile."""
    checkpoint = GROWTHS[growth]
    history = History()
    batches: list[Batch] = []
    incidents: dict[str, Incident] = {}
    verdicts: tuple[Verdict, ...] = ()
    numbers = count()
    policy = IncidentPolicy()
    next_check = EVERY
    for batch, delay in stream(checkpoint):
        assert batch.committed_at is not None
        now = batch.committed_at - START
        while next_check < now:
            window = _window(batches, delay, START + next_check, verdicts)
            verdicts = evaluate(window, DEFAULTS)
            for verdict in verdicts:
                if verdict.status in (Status.WARNING, Status.CRITICAL):
                    history.told.setdefault((verdict.check, verdict.status), next_check)
                    history.delay.setdefault((verdict.check, verdict.status), delay)
            for each in advance(incidents.values(), verdicts, next_check, policy, lambda: str(next(numbers))).all:
                incidents[each.incident_id] = each
            for each in (group.root for group in due(grouped(incidents.values()), next_check, policy.resend_interval)):
                history.messages.append((next_check, each.check, each.status))
                incidents[each.incident_id] = replace(each, notified_at=next_check, notified_status=each.status)
            next_check += EVERY
        batches = [*batches[-99:], batch]
        if delay >= LATE:
            history.late_after = now
            return history
    raise AssertionError("unreachable")


def _window(batches: list[Batch], delay: float, now: float, before: Iterable[Verdict]) -> Window:
    last = batches[-1] if batches else None
    return Window(
        spec=SPEC,
        now=now,
        batches=tuple(batches),
        drivers=(driver(1, START - 20, started_at=START),),
        driver_alive=True,
        previous={verdict.check: verdict for verdict in before},
        log=None
        if last is None
        else log(last.batch_id + 1, last.batch_id, planned_at=last.committed_at, committed_at=last.committed_at),
        state=()
        if last is None
        else (StateInstance(operator=0, partition=0, snapshot=last.batch_id, version=last.batch_id + 1),),
        waiting=WaitingInput(
            count=int(delay),
            size=int(delay),
            since=now - delay,
            planned=FILES * min(20, len(batches)),
            planned_batches=min(20, len(batches)),
        ),
    )


def test_the_simulated_stream_is_well_while_its_checkpoints_are() -> None:
    """Negative control: 1 s of checkpoint keeps the rhythm of 4 s and never falls behind."""
    for (_, delay), _ in zip(stream(lambda _: 1.0), range(2_000), strict=False):
        assert delay <= 8


GROWTHS: dict[str, Callable[[float], float]] = {
    "in six hours to 60 s": lambda now: 1 + 59 * min(1.0, now / (6 * HOUR)),
    "in three hours to 30 s": lambda now: 1 + 29 * min(1.0, now / (3 * HOUR)),
    "in a day to 45 s": lambda now: 1 + 44 * min(1.0, now / (24 * HOUR)),
    "at once to 30 s": lambda now: 1.0 if now < HOUR else 30.0,
    "at once to 60 s": lambda now: 1.0 if now < HOUR else 60.0,
}


@pytest.mark.parametrize("growth", GROWTHS)
def test_people_hear_of_growing_checkpoints_hours_before_a_four_hour_delay(growth: str) -> None:
    """However the checkpoints grow, the first message comes more than three hours ahead, and CRITICAL more than two."""
    history = live(growth)
    first = min(at for at, _, _ in history.messages)
    critical = min(at for at, _, status in history.messages if status is Status.CRITICAL)
    assert history.late_after - first > 3 * HOUR
    assert history.late_after - critical > 2 * HOUR


@pytest.mark.parametrize("growth", GROWTHS)
def test_the_checkpoint_check_itself_warns_hours_ahead(growth: str) -> None:
    """Not only the backlog that it causes: the cause is named, with advice, while half the delay is to come."""
    history = live(growth)
    told = min(at for (check, _), at in history.told.items() if check == "checkpoint_duration")
    assert history.late_after - told > 2.5 * HOUR
    assert min(delay for (check, _), delay in history.delay.items() if check == "checkpoint_duration") < LATE / 2


def test_one_message_a_check_and_status_within_the_resend_interval() -> None:
    history = live("in six hours to 60 s")
    sent: dict[tuple[str, Status], float] = {}
    for at, check, status in history.messages:
        before = sent.get((check, status))
        assert before is None or at - before >= HOUR, (check, status, before, at)
        sent[(check, status)] = at
