"""Compares the output of a broken fork with its twin's, and two unbroken twins with each other. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from streamwarden.drills.records.twin import nulls_of
from streamwarden.errors import VerificationError
from streamwarden.services.twins.keys import RowKey
from streamwarden.services.verifying.outputs import InputOf, compare_outputs
from streamwarden.sinks.output import Output, Part
from streamwarden.units import format_list
from streamwarden.verification.comparing.column_types import ColumnType
from streamwarden.verification.reconciliation import Reconciliation
from streamwarden.verification.tolerance import Tolerance

_WITH_SCHEMA: Final = (".parquet", ".orc")


def compare(
    twin: Output,
    fork: Output,
    key: RowKey,
    *,
    records: int,
    tolerances: Mapping[str, Tolerance],
    left_out: Sequence[str] = (),
    problems: Iterable[str] = (),
    input_of: InputOf | None = None,
) -> Reconciliation:
    """The fork's rows against the twin's.

    Args:
        problems: other problems of the fork.
        input_of: the input of a batch of the fork, for the samples.

    Raises VerificationError for a tolerance of a column that is not compared by number.
    """
    _require_values(tolerances, key, twin)
    outcome = compare_outputs(
        with_nulls(twin, left_out),
        with_nulls(fork, left_out),
        key=key.columns,
        checked=key.checked,
        records=records,
        tolerances=tolerances,
        ignored=left_out,
        notes=fork.notes,
        input_of=input_of,
    )
    types = [problem for name in twin.columns for problem in _type_problems(name, twin, fork)]
    return replace(outcome, problems=(*outcome.problems, *_alone(twin, fork), *types, *problems))


def with_nulls(output: Output, names: Collection[str]) -> Output:
    """The output with, for each column of these names, another one that says of each row whether it is NULL there."""
    if not names:
        return output
    flagged = [name for name in output.columns if name in names]
    parts = [_flagged(part, flagged) for part in output.parts]
    return replace(output, columns=(*output.columns, *map(nulls_of, flagged)), parts=parts)


def _flagged(part: Part, names: Iterable[str]) -> Part:
    import pyarrow as pa

    table = part.table
    for name in names:
        here = name in table.column_names
        table = table.append_column(
            nulls_of(name), table.column(name).is_null() if here else pa.array([True] * part.count)
        )
    return replace(part, table=table)


def _alone(twin: Output, fork: Output) -> list[str]:
    """Columns that one side alone has, as problems: if all of their values are NULL, no row shows it. Of a side without
    any row the columns are not known."""
    if not twin.count or not fork.count:
        return []
    mine, its = set(fork.columns), set(twin.columns)
    missing = [f"the fork's output has no column {name}, and the twin's has" for name in sorted(its - mine)]
    extra = [f"the fork's output has the column {name}, and the twin's has not" for name in sorted(mine - its)]
    return [*missing, *extra, *(text for name in sorted(mine & its) for text in _partly(name, twin, fork))]


def _partly(name: str, twin: Output, fork: Output) -> list[str]:
    """A column that files of one side lack: a job may write it no more after a restart."""
    without, its = (_rows_without(name, output) for output in (fork, twin))
    said = (
        f"files with {without:,} rows of the fork's output have no column {name}, and files with {its:,} of the twin's"
    )
    return [said] if without != its else []


def _rows_without(name: str, output: Output) -> int:
    """Rows in files that have a schema, and in it no such column. In JSON a NULL is a missing name."""
    files = (part for part in output.parts if part.file is not None and part.file.endswith(_WITH_SCHEMA))
    return sum(part.count for part in files if name not in part.table.column_names)


def unstable_columns(one: Output, other: Output, key: RowKey, tolerances: Mapping[str, Tolerance]) -> tuple[str, ...]:
    """The columns in which two unbroken runs of the same batches differ; with `nulls_of` those of which even the NULLs
    differ.

    Raises VerificationError if the runs differ in more than values of columns, so that nothing can be proven.
    """
    columns = tuple(dict.fromkeys((*one.columns, *other.columns)))
    if not key.columns:
        unstable = [name for name in columns if _only(one, other, key, (name,), tolerances).rows_differ]
        rest = tuple(name for name in columns if name not in unstable)
        if not rest or _only(one, other, key, rest, tolerances).rows_differ:
            raise _unprovable("whole rows differ, and no column is known to identify a row", key)
        return _with_unstable_nulls(one, other, key, unstable)
    keys = _only(one, other, key, key.columns, tolerances)
    if keys.rows_differ:
        alone = keys.lost + keys.unexpected + keys.duplicated
        raise _unprovable(f"{alone:,} of {keys.expected:,} keys are in one of the two alone", key)
    values = (name for name in columns if name not in key.columns)
    unstable = [name for name in values if _only(one, other, key, (*key.columns, name), tolerances).wrong]
    return _with_unstable_nulls(one, other, key, unstable)


def _with_unstable_nulls(one: Output, other: Output, key: RowKey, names: Sequence[str]) -> tuple[str, ...]:
    """The names and, with `nulls_of`, those whose NULLs differ, too. Without a key, as many NULLs may be in other rows:
    then none is compared."""
    flags = [nulls_of(name) for name in names]
    mine, its = with_nulls(one, names), with_nulls(other, names)
    differ = [flag for flag in flags if _only(mine, its, key, (*key.columns, flag), {}).rows_differ]
    rest = [name for name in mine.columns if name not in (*names, *differ)]
    moved = not key.columns and _only(mine, its, key, rest, {}).rows_differ
    return (*names, *(flags if moved else differ))


def _only(
    one: Output, other: Output, key: RowKey, columns: Sequence[str], tolerances: Mapping[str, Tolerance]
) -> Reconciliation:
    """The comparison of two outputs by some of their columns."""
    left_out = {*one.columns, *other.columns}.difference(columns)
    return compare_outputs(one, other, key=key.columns, checked=key.checked, tolerances=tolerances, ignored=left_out)


def _type_problems(name: str, twin: Output, fork: Output) -> list[str]:
    """A column whose values are equal and whose type is another one. Where nothing is known, everything fits."""
    expected, actual = _shown(twin.types.get(name, ())), _shown(fork.types.get(name, ()))
    if not expected or not actual or expected == actual:
        return []
    of_fork, its = (format_list(sorted(names)) for names in (actual, expected))
    return [f"the column {name} is {of_fork} in the fork, and {its} in the twin"]


def _shown(types: Iterable[ColumnType]) -> set[str]:
    return {column_type.shown for column_type in types}


def _require_values(tolerances: Mapping[str, Tolerance], key: RowKey, twin: Output) -> None:
    for name in tolerances:
        if not key.has_value(name, twin):
            where = "the output has no such column" if name not in twin.columns else key.origin
            raise VerificationError(
                f"`verification.tolerance` names {name}, which is not compared as a number: {where}",
                expected="a column of the output that is not in the key, and a key that identifies a row",
                where="the drill's file",
                next_step="correct the column's name, or declare `verification.key`",
            )


def _unprovable(observed: str, key: RowKey) -> VerificationError:
    return VerificationError(
        f"exactly-once cannot be proven with a twin: two unbroken runs of the same batches differ ({observed})",
        expected="two runs of the same batches that write rows with the same keys",
        where=f"the key {', '.join(key.columns)} ({key.origin})" if key.columns else key.origin,
        next_step="declare columns that are the same in each run as `verification.key`, or write an oracle for the job "
        "and set `verification.oracle: job`",
    )
