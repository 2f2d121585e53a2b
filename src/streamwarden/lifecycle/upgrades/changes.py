"""Compares the state that a checkpoint has with the state that a new version of the job keeps, field by field. Pure.

The state of the new version is that of a checkpoint which it began anew. So it is seen whether or not Spark accepts it
on the old checkpoint, and also where Spark accepts it and keeps the old names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamwarden.checkpoint.diagnosis.report import CheckpointReport, OperatorReport
from streamwarden.checkpoint.formats.schemas import DEFAULT_FAMILY, ColumnFamily

ENCODING: Final = "spark.sql.streaming.stateStore.encodingFormat"
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"

_AVRO: Final = "avro"
_OWN: Final = "$"
"""How the names of column families begin that Spark keeps for itself: timers, expiry, indexes."""

_NAME_WITHIN: Final = re.compile(r"\b\w+: ")
"""A field's name in the text of a struct, which Spark does not compare either."""


class What(StrEnum):
    """Kind of a change of the state."""

    OPERATOR_APPEARS = "operator appears"
    OPERATOR_VANISHES = "operator vanishes"
    VARIABLE_APPEARS = "variable appears"
    VARIABLE_VANISHES = "variable vanishes"
    VARIABLE_KIND = "variable of another kind"
    FIELD_APPEARS = "field appears"
    FIELD_VANISHES = "field vanishes"
    FIELD_TYPE = "field of another type"
    FIELD_NAME = "field of another name"  # of the same type and at the same place
    FIELDS_MOVED = "fields in another order"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """One change of the state.

    Args:
        operator: its number; Spark numbers the operators from the sink towards the sources.
        where: the operator's name; of a field also its variable, and whether it is in the key.
        before, after: in the checkpoint, and in the new version; None: not there.
        silent: Spark does not notice it, and reads the old rows under the new meaning.
    """

    what: What
    operator: int
    where: str
    before: str | None
    after: str | None
    silent: bool = False

    def __str__(self) -> str:
        unseen = "; Spark compares types alone, and reads the old values as the new ones" if self.silent else ""
        return f"operator {self.operator}, {self.where}: {self.what}: {_shown(self.before, self.after)}{unseen}"


@dataclass(frozen=True, slots=True)
class FixedSetting:
    """A setting that the checkpoint has fixed, and that the new version asks for with another value: Spark keeps the
    checkpoint's, and says nothing."""

    key: str
    kept: str
    asked: str

    def __str__(self) -> str:
        return f"{self.key} stays {self.kept}, which the checkpoint has fixed, although {self.asked} is asked for"


def state_changes(before: CheckpointReport, after: CheckpointReport) -> tuple[StateChange, ...]:
    """The changes from the checkpoint `before` to one that the new version began anew."""
    by_name = before.conf.get(ENCODING) == _AVRO
    old, new = ({operator.operator: operator for operator in report.operators} for report in (before, after))
    return tuple(
        change
        for number in sorted(old.keys() | new.keys())
        for change in _operator_changes(number, old.get(number), new.get(number), by_name)
    )


def fixed_settings(before: CheckpointReport, after: CheckpointReport) -> tuple[FixedSetting, ...]:
    """The settings of the checkpoint that a new start would have chosen otherwise."""
    return tuple(
        FixedSetting(key, kept, after.conf[key])
        for key, kept in sorted(before.conf.items())
        if key in after.conf and after.conf[key] != kept
    )


def _operator_changes(
    number: int, before: OperatorReport | None, after: OperatorReport | None, by_name: bool
) -> Iterator[StateChange]:
    if before is not None and after is not None and before.name == after.name:
        yield from _family_changes(number, _name(before), _families(before), _families(after), by_name)
        return
    if before is not None:
        name = _name(before)
        yield StateChange(what=What.OPERATOR_VANISHES, operator=number, where=name, before=name, after=None)
    if after is not None:
        name = _name(after)
        yield StateChange(what=What.OPERATOR_APPEARS, operator=number, where=name, before=None, after=name)


def _name(operator: OperatorReport) -> str:
    return operator.name or "unnamed"


def _families(operator: OperatorReport) -> dict[str, ColumnFamily]:
    """Store and family -> its fields, without what Spark keeps for itself."""
    several = len(operator.schemas) > 1
    return {
        f"{schema.store}/{family.name}" if several else family.name: family
        for schema in operator.schemas
        for family in schema.families
        if not family.name.startswith(_OWN)
    }


def _family_changes(
    number: int, operator: str, old: Mapping[str, ColumnFamily], new: Mapping[str, ColumnFamily], by_name: bool
) -> Iterator[StateChange]:
    for name in sorted(old.keys() | new.keys()):
        where = operator if name == DEFAULT_FAMILY else f"{operator}, {name}"
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            what = What.VARIABLE_APPEARS if before is None else What.VARIABLE_VANISHES
            old_fields, new_fields = (None if each is None else ", ".join(each.value) for each in (before, after))
            yield StateChange(what=what, operator=number, where=where, before=old_fields, after=new_fields)
            continue
        if None not in (before.kind, after.kind) and before.kind != after.kind:
            yield StateChange(
                what=What.VARIABLE_KIND, operator=number, where=where, before=before.kind, after=after.kind
            )
        for part, one, other, named in (
            ("key", before.key, after.key, False),
            ("value", before.value, after.value, by_name),
        ):
            yield from _field_changes(number, f"{where}, {part}", one, other, by_name=named)


def _field_changes(
    number: int, where: str, old: Sequence[str], new: Sequence[str], *, by_name: bool
) -> Iterator[StateChange]:
    """By name where a row says by which schema it was written; elsewhere a field is known by its place and type."""
    if not by_name and list(map(_unnamed, old)) == list(map(_unnamed, new)):
        for before, after in zip(old, new, strict=True):
            if before != after:
                yield StateChange(
                    what=What.FIELD_NAME, operator=number, where=where, before=before, after=after, silent=True
                )
        return
    was, becomes = (dict(field.split(" ", 1) for field in fields) for fields in (old, new))
    for name in dict.fromkeys((*was, *becomes)):
        one, other = (f"{name} {fields[name]}" if name in fields else None for fields in (was, becomes))
        if one == other:
            continue
        what = What.FIELD_TYPE
        if one is None or other is None:
            what = What.FIELD_APPEARS if one is None else What.FIELD_VANISHES
        yield StateChange(what=what, operator=number, where=where, before=one, after=other)
    if was == becomes and list(was) != list(becomes):
        yield StateChange(
            what=What.FIELDS_MOVED, operator=number, where=where, before=", ".join(old), after=", ".join(new)
        )


def _unnamed(field: str) -> str:
    """The type of a field, without names."""
    return _NAME_WITHIN.sub("", field.split(" ", 1)[1])


def _shown(before: str | None, after: str | None) -> str:
    if before is None or after is None:
        return str(after if before is None else before)
    return f"{before} becomes {after}"
