"""`delete_keys`: takes keys out of the state of a stream. Airflow never learns which ones."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from streamwarden.airflow.dags.state.operations import Asked, Done
from streamwarden.airflow.dags.state.private.operation import PrivateOperation
from streamwarden.services.workspace import Workspace
from streamwarden.units import format_count

if TYPE_CHECKING:
    from streamwarden.services.state.deleting import Counted, Deleted
    from streamwarden.services.state.requested.deletions import Deletions

_DOC: Final = """\
Takes keys out of the state of a stream, with all that its operator keeps of them.

Name the keys on the tab *State* of the stream's page, or in a request to the API: this form has the id of such a
request, and Airflow keeps no key. The first task counts the keys, and what is kept of them. After a person's approval a
savepoint is taken, and Spark writes a copy of the state without the keys, which is compared with the stream's state,
byte for byte, before it takes the place of the checkpoint. The savepoint and the previous checkpoint still have the
keys. A deletion that was interrupted is completed by another run with the same keys. State of RocksDB only. On a shell:
`streamwarden state delete`.
"""


class KeyDeletion(PrivateOperation["Counted", "Deleted"]):
    """Takes keys out of a state."""

    dag_id, doc, name, contents = "delete_keys", _DOC, "deletion", "the keys"

    def requests(self, space: Workspace, stream: str) -> "Deletions":
        from streamwarden.services.state.requested.deletions import Deletions

        return Deletions(space.data, stream)

    def asks(self, planned: "Counted | None") -> tuple[str, Mapping[str, str]]:
        amount = "the keys of the deletion that was interrupted" if planned is None else _amount(planned)
        return f"Delete {amount} from", {
            "Rows": "They were counted before." if planned is None else "; ".join(_parts(planned)),
            "The way back": "a savepoint is taken first. It and the previous checkpoint still have the keys.",
        }

    def said(self, asked: Asked, done: "Deleted") -> Done:
        from streamwarden.services.state.deleting import copies

        amount = "the keys" if done.changed is None else _amount(done.changed)
        savepoints, checkpoints = copies(asked.spec)
        return Done(
            sentence=f"{amount} deleted from the state of {asked.spec.name}; every other row is as it was",
            more=f"in the history: {done.exchanged.exchange.subject}; these may still have the keys: savepoints "
            f"{', '.join(savepoints) or 'none'}; previous checkpoints {', '.join(map(str, checkpoints)) or 'none'}",
        )


def _amount(counted: "Counted") -> str:
    return f"{format_count(counted.found.keys, 'key')} with {format_count(counted.found.rows, 'row')}"


def _parts(counted: "Counted") -> Iterator[str]:
    """The rows of the keys by part of the state."""
    operator = counted.operator
    yield f"operator {operator.operator} ({operator.name}), after batch {counted.batch}"
    for part in counted.found.parts:
        rows = f"{format_count(part.keys, 'key')} with {format_count(part.rows, 'row')}"
        yield f"store {part.store}, {part.family}: {rows}"
