"""The outcome of an upgrade's preflight, and what of it stands in the way. Pure.

Two kinds of obstacles: what no one can wish away (Spark refuses the new version), and what Spark lets pass and a person
has to have seen (another output, a setting that is ignored, old state that is read under a new meaning). The latter are
refused by default: an upgrade that is meant to change nothing is then proven to change nothing, and for one that is
meant to, the person who accepts it has the difference before them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from streamwarden.lifecycle.upgrades.changes import FixedSetting, StateChange, What
from streamwarden.lifecycle.upgrades.rules import RULES, Rule
from streamwarden.units import format_count

ACCEPT: Final = "--accept-difference"

_SHOWN: Final = 5
"""Rows that differ of each kind, in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The new version did not run a batch of the old one.

    Args:
        batch: None: its query could not be built.
        error_class: Spark's error condition, or the class of the exception.
        next_step: what the table of causes says to it.
    """

    batch: int | None
    error_class: str | None
    message: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDifference:
    """The rows that both versions wrote of the same batches, from the same state.

    Args:
        old, new: how many rows each wrote.
        gone: rows of the old version alone; added: of the new version alone; changed: with the same key, and other
            values.
        key: the columns that identify a row; empty: whole rows were compared.
        columns: columns that appear, vanish or have another type, in words.
        left_out: columns that two runs of the old version do not agree on: not compared.
        samples: a few rows of each kind, as text.
        unproven: why the outputs cannot be compared; empty: they were.
    """

    old: int
    new: int
    gone: int = 0
    added: int = 0
    changed: int = 0
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    samples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unproven: str = ""

    @property
    def rows_differ(self) -> bool:
        return bool(self.gone or self.added or self.changed)

    @property
    def differs(self) -> bool:
        return bool(self.rows_differ or self.columns or self.unproven)

    def followed_by(self, later: "OutputDifference") -> "OutputDifference":
        """Both as one: the rows of these batches and of later ones."""
        kinds = (*self.samples, *later.samples)
        samples = {kind: (*self.samples.get(kind, ()), *later.samples.get(kind, ()))[:_SHOWN] for kind in kinds}
        return OutputDifference(
            old=self.old + later.old,
            new=self.new + later.new,
            gone=self.gone + later.gone,
            added=self.added + later.added,
            changed=self.changed + later.changed,
            key=later.key or self.key,
            columns=tuple(dict.fromkeys((*self.columns, *later.columns))),
            left_out=tuple(dict.fromkeys((*self.left_out, *later.left_out))),
            samples=samples,
            unproven=self.unproven or later.unproven,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What a new version did on forks of the stream.

    Args:
        batch: committed batch of the stream that the forks were made at.
        first, last: the batches that both versions executed.
        job: path of the new version.
        operators: names of the checkpoint's stateful operators, from the sink to the sources.
        state, settings: what changes; empty where the new version could not be begun anew (`seen` False).
        watermarks: batches after which the watermark is another one, in words.
        refused: None: it ran all the batches.
        output: None: it ran none.
        outside: files, servers and programs that the jobs used beside Spark, outside of the forks' folder.
        seconds: of it all.
    """

    stream: str
    job: str
    batch: int
    first: int
    last: int
    operators: tuple[str, ...]
    seen: bool
    state: tuple[StateChange, ...] = ()
    settings: tuple[FixedSetting, ...] = ()
    watermarks: tuple[str, ...] = ()
    refused: Refused | None = None
    output: OutputDifference | None = None
    outside: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A reason why the upgrade is not carried out. `acceptable`: a person may have it so."""

    observed: str
    next_step: str
    acceptable: bool = True


def obstacles(found: Preflight, accepted: bool) -> tuple[Obstacle, ...]:
    """What stands in the way of the upgrade. `accepted`: a person has accepted each difference."""
    return tuple(obstacle for obstacle in _obstacles(found) if not (accepted and obstacle.acceptable))


def rules_of(found: Preflight) -> tuple[Rule, ...]:
    """The rows of the table that explain what was found, without repetition."""
    wanted = {change.what for change in found.state}
    error = found.refused.error_class if found.refused is not None else None
    return tuple(
        rule
        for rule in RULES
        if (error is not None and rule.error_class == error and (not wanted or not rule.shows or rule.shows & wanted))
        or (error is None and rule.error_class is None and rule.shows & wanted)
    )


def _obstacles(found: Preflight) -> Iterator[Obstacle]:
    if found.refused is not None:
        advice = [found.refused.next_step, *(rule.what_to_do for rule in rules_of(found))]
        where = "the query cannot be built" if found.refused.batch is None else f"batch {found.refused.batch}"
        yield Obstacle(
            observed=f"{where}: {found.refused.error_class}: {found.refused.message}",
            next_step="; ".join(dict.fromkeys(filter(None, advice))),
            acceptable=False,
        )
        return
    for change in found.state:
        if change.silent:
            yield Obstacle(
                observed=str(change),
                next_step=f"undo it, or give the stream a new checkpoint; a mere new name may stay: {ACCEPT}",
            )
        elif change.what is What.OPERATOR_VANISHES:
            yield Obstacle(observed=str(change), next_step=f"undo it; or let its state be forgotten: {ACCEPT}")
    for setting in found.settings:
        yield Obstacle(observed=str(setting), next_step=f"set {setting.kept} in the stream's file, or {ACCEPT}")
    for watermark in found.watermarks[:1]:
        more = f" (and {len(found.watermarks) - 1} more)" if len(found.watermarks) > 1 else ""
        yield Obstacle(
            observed=f"{watermark}{more}; the batches were executed with the old one, so that what it changes of the "
            "output is not shown",
            next_step=f"undo it, or {ACCEPT}",
        )
    if found.output is not None:
        yield from of_output(found.output)


def of_output(output: OutputDifference) -> Iterator[Obstacle]:
    """That the outputs differ, if they do."""
    if output.differs:
        yield Obstacle(observed=_said(output), next_step=f"compare the samples; if it is meant so: {ACCEPT}")


def _said(output: OutputDifference) -> str:
    if output.unproven:
        return f"the outputs cannot be compared: {output.unproven}"
    kinds = [
        f"{format_count(output.gone, 'row')} of the old version alone" if output.gone else "",
        f"{format_count(output.added, 'row')} of the new version alone" if output.added else "",
        f"{format_count(output.changed, 'row')} with other values" if output.changed else "",
        *output.columns,
    ]
    return f"the output differs: {', '.join(filter(None, kinds))}"
