"""Compares the rows that the old and the new version wrote of the same batches."""

from collections.abc import Collection, Iterator, Sequence

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.layout import COMMITS
from streamwarden.checkpoint.formats.logs import written_at
from streamwarden.lifecycle.upgrades.preflight import OutputDifference
from streamwarden.services.twins.keys import RowKey
from streamwarden.services.twins.third_witness import NotComparable, rows_of
from streamwarden.services.verifying.outputs import compare_outputs
from streamwarden.sinks.base import Sink
from streamwarden.sinks.output import Output
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_list
from streamwarden.verification.comparing.balance import Range


def difference(
    old: Output, new: Output, key: RowKey, left_out: Sequence[str] = (), records: int = 0
) -> OutputDifference:
    """The columns that both have are compared row by row, the others are named.

    Args:
        left_out: columns in which two runs of the old version differ.

    Raises VerificationError if two rows of the old version have the same key.
    """
    alone = set(old.columns) ^ set(new.columns) if old.count and new.count else set()
    ignored: Collection[str] = {*alone, *left_out}
    outcome = compare_outputs(old, new, key=key.columns, checked=key.checked, records=records, ignored=ignored)
    return OutputDifference(
        old=old.count,
        new=new.count,
        gone=outcome.lost,
        added=outcome.unexpected + outcome.duplicated,
        changed=outcome.wrong,
        key=key.columns,
        columns=tuple(_columns(old, new)),
        left_out=tuple(left_out),
        samples=outcome.samples,
    )


def written(spec: StreamSpec, batches: Range) -> Output:
    """The rows that a stream wrote in these batches; later ones may have followed.

    Raises NotComparable, VerificationError, SourceError, OSError.
    """
    assert isinstance(spec.sink, Sink)  # no other stream can be forked
    if not spec.sink.MANIFEST:
        whole = spec.sink.read(spec, {}, committed=batches.upto, first=batches.after + 1, deduplicated=True)
        return rows_of(spec, whole, batches.batches, batches.after, spec)
    began = written_at(checkpoint_of(spec), COMMITS, batches.after)
    found = None if began is None else spec.sink.rows_of_batches(spec, batches, began)
    if found is None:
        raise NotComparable(f"the data files of the {batches} are not all there any more")
    return found


def types_of(output: Output) -> dict[str, list[str]]:
    """Column -> its types in these rows alone."""
    types: dict[str, set[str]] = {}
    for part in output.parts:
        for column in part.table.schema:
            types.setdefault(column.name, set()).add(str(column.type))
    return {name: sorted(kinds) for name, kinds in types.items()}


def _columns(old: Output, new: Output) -> Iterator[str]:
    """Columns that one side alone has, or that have another type. Of a side without any row they are not known."""
    if not old.count or not new.count:
        return
    was, becomes = types_of(old), types_of(new)
    for name in dict.fromkeys((*was, *becomes)):
        if name not in was or name not in becomes:
            yield f"the column {name} {'vanishes' if name in was else 'appears'}"
        elif was[name] != becomes[name]:
            yield f"the column {name} is {format_list(becomes[name])}, in place of {format_list(was[name])}"
