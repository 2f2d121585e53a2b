"""The changes of a stream's file that recommendations ask for, and who carries each of them out."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from streamwarden.lifecycle.settings import DELTAS, MAINTENANCE
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.tuning.recommendation import Recommendation

TRIGGER: Final = "trigger.processing_time"
HEAP: Final = "spark.driver_memory"
PARTITIONS: Final = "state.shuffle_partitions"

KeyPath = tuple[str, ...]


class How(StrEnum):
    """Who carries a change out."""

    TRIAL = "tried on a fork"
    REPARTITION = "by `streamwarden repartition`"
    PERSON = "by a person"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One advised setting.

    Args:
        key: its place in the stream's file.
        before: its present value, as text; None: the file does not have it.
        after: the advised value.
        why: the sentence of the recommendation.
        costs: what the present value costs, in percent; None: not known.
        cures: the health check that judges the same.
        next_step: what a person does, where the change is not tried and written.
    """

    topic: str
    key: KeyPath
    before: str | None
    after: str
    why: str
    costs: float | None
    cures: str
    how: How
    next_step: str = ""

    @property
    def setting(self) -> str:
        """The setting as the recommendation names it."""
        return ".".join(self.key)


Declared = Callable[[KeyPath], str | None]
"""Returns the value that the stream's file has at a place; None: none."""


def changes_of(spec: StreamSpec, advice: Iterable[Recommendation], declared: Declared) -> tuple[Change, ...]:
    """Every setting that is advised with another value than the file has, in the order of the advice."""
    return tuple(
        change for each in advice for change in _changes(spec, each, declared) if change.before != change.after
    )


def _changes(spec: StreamSpec, advice: Recommendation, declared: Declared) -> Iterator[Change]:
    for setting, value in advice.settings.items():
        key = key_of(setting)
        how, next_step = _how(spec, setting, value)
        yield Change(
            topic=advice.topic,
            key=key,
            before=declared(key),
            after=value,
            why=advice.says,
            costs=advice.costs,
            cures=advice.cures,
            how=how,
            next_step=next_step,
        )


def key_of(setting: str) -> KeyPath:
    """Where a setting stands in a stream's file: Spark's own are below `spark.conf`, under their whole names."""
    if setting in (DELTAS, MAINTENANCE):
        return ("spark", "conf", setting)
    return tuple(setting.split("."))


def _how(spec: StreamSpec, setting: str, value: str) -> tuple[How, str]:
    """Who carries it out, and the next step if that is not the trial."""
    if setting == PARTITIONS:
        return How.REPARTITION, (
            f"stop the stream, run `streamwarden repartition {spec.name} --partitions {value}`, set {PARTITIONS}: "
            f"{value} in its file, and start it again: the checkpoint keeps its number until then"
        )
    if setting == TRIGGER and spec.sink.mode is not OutputMode.APPEND:
        return _person(setting, value, f"in the output mode {spec.sink.mode} longer batches write fewer rows")
    if setting in (TRIGGER, HEAP, DELTAS, MAINTENANCE):
        return How.TRIAL, ""
    if setting.startswith("spark.executors."):
        return _person(setting, value, "a fork runs on this host, without the cluster's limits")
    return _person(setting, value, "it depends on who reads the output")


def _person(setting: str, value: str, reason: str) -> tuple[How, str]:
    return How.PERSON, f"set {setting}: {value} by hand: {reason}"


def tried(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes that a trial can show, and that are written after it."""
    return tuple(change for change in changes if change.how is How.TRIAL)


def without_trigger(changes: Iterable[Change], reason: str) -> tuple[Change, ...]:
    """The changes, of which a longer trigger is left to a person for this reason."""
    return tuple(
        replace(change, how=How.PERSON, next_step=f"set {TRIGGER}: {change.after} by hand: {reason}")
        if change.key == key_of(TRIGGER)
        else change
        for change in changes
    )


def values_of(changes: Iterable[Change]) -> Mapping[KeyPath, str]:
    """What the writer puts into the file."""
    return {change.key: change.after for change in changes}
