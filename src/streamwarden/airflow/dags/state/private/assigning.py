"""`set_value`: gives a key of the state of a stream another value. Airflow never learns which ones."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from streamwarden.airflow.dags.state.operations import Asked, Done
from streamwarden.airflow.dags.state.private.operation import PrivateOperation
from streamwarden.services.workspace import Workspace
from streamwarden.units import format_count

if TYPE_CHECKING:
    from streamwarden.services.state.assigning import SettingResult, ValueChange
    from streamwarden.services.state.requested.assignments import Assignments

_DOC: Final = """\
Gives one key of the state of a stream another value: of transformWithState, applyInPandasWithState or an aggregation.

Name the key and the value on the tab *State* of the stream's page, or in a request to the API: this form has the id of
such a request, and Airflow keeps neither. The first task reads the present value. After a person's approval a savepoint
is taken, and Spark writes a copy of the state with the new value, which takes the place of the checkpoint only if
exactly this row differs. The savepoint and the previous checkpoint have the old value. An assignment that was
interrupted is completed by another run with the same key and value. State of RocksDB only. On a shell:
`streamwarden state set`.
"""


class ValueAssignment(PrivateOperation["ValueChange", "SettingResult"]):
    """Sets a value of a state."""

    dag_id, doc, name, contents = "set_value", _DOC, "assignment", "the key and its values"

    def requests(self, space: Workspace, stream: str) -> "Assignments":
        from streamwarden.services.state.requested.assignments import Assignments

        return Assignments(space.data, stream)

    def asks(self, planned: "ValueChange | None") -> tuple[str, Mapping[str, str]]:
        amount = "the value of the assignment that was interrupted" if planned is None else "a value of 1 key"
        return f"Set {amount} in", {
            "Row": "It was read before." if planned is None else _row(planned),
            "The way back": "a savepoint is taken first. It and the previous checkpoint have the old value.",
        }

    def said(self, asked: Asked, done: "SettingResult") -> Done:
        where = "" if done.changed is None else f" ({done.changed.table.words})"
        return Done(
            sentence=f"a value of 1 key set in the state of {asked.spec.name}{where}; every other row is as it was",
            more=f"in the history: {done.exchanged.exchange.subject}; previous checkpoint: {done.exchanged.aside}",
        )


def _row(change: "ValueChange") -> str:
    found = change.assigned
    what = "the key has no value there, and gets one" if found.before is None else "the key has another value there"
    proven = f"{format_count(found.proven, 'stored value')} encoded again to the same bytes"
    return f"{change.table.words}, after batch {change.batch}: {what}; {proven}"
