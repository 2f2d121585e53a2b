"""`delete_keys`: takes keys out of the state of a stream. Airflow never learns which ones."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Param

from streamwarden.airflow.dags.controls import REASON
from streamwarden.airflow.dags.state.operations import STOP_FIRST, Asked, Checked, Done, Operation
from streamwarden.services.workspace import Workspace
from streamwarden.units import format_count

if TYPE_CHECKING:
    from streamwarden.services.state.deleting import Counted
    from streamwarden.services.state.requested_deletions import Deletions

_DOC: Final = """\
Takes keys out of the state of a stream, with all that its operator keeps of them.

Name the keys on the tab *State* of the stream's page, or in a request to the API: this form has the id of such a
request, and Airflow keeps no key. The first task counts the keys, and what is kept of them. After a person's approval a
savepoint is taken, and Spark writes a copy of the state without the keys, which is compared with the stream's state,
byte for byte, before it takes the place of the checkpoint. The savepoint and the previous checkpoint still have the
keys. A deletion that was interrupted is completed by another run with the same keys. State of RocksDB only. On a shell:
`streamwarden state delete`.
"""


class KeyDeletion(Operation):
    """Takes keys out of a state."""

    dag_id, doc, name = "delete_keys", _DOC, "deletion"

    def fields(self) -> dict[str, Param]:
        shown = "The id of a request that the stream's page or the API took: it has the keys"
        request = Param(type="string", title="Request", description=shown, pattern="^[0-9]{8}T[0-9]{12}Z-[0-9a-f]{8}$")
        return {"deletion": request, "reason": REASON, "stop_first": STOP_FIRST}

    def check(self, asked: Asked) -> Checked:
        from streamwarden.services.state.requested_deletions import count

        found, name = (
            count(asked.spec, _deletions(asked.space, asked.params), asked.params["deletion"]),
            asked.spec.name,
        )
        amount = "the keys of the deletion that was interrupted" if found is None else _amount(found)
        return Checked(
            subject=f"Delete {amount} from the state of the stream {name}?",
            said={
                "Rows": "They were counted before." if found is None else "; ".join(_parts(found)),
                "The keys": f"the tab State of {name} shows them to those who may change the stream. This request does "
                "not name them, and they are forgotten when they are deleted.",
                "The way back": "a savepoint is taken first. It and the previous checkpoint still have the keys.",
            },
        )

    def carry_out(self, asked: Asked, details: Mapping[str, Any]) -> Done:
        from streamwarden.services.savepoints.describing import Author
        from streamwarden.services.state.deleting import copies
        from streamwarden.services.state.requested_deletions import carry_out

        author, deletions = Author(by=asked.by, reason=asked.params["reason"]), _deletions(asked.space, asked.params)
        done = carry_out(asked.space.store, asked.spec, deletions, asked.params["deletion"], author)
        amount = "the keys" if done.counted is None else _amount(done.counted)
        savepoints, checkpoints = copies(asked.spec)
        return Done(
            sentence=f"{amount} deleted from the state of {asked.spec.name}; every other row is as it was",
            more=f"in the history: {done.exchanged.exchange.subject}; these may still have the keys: savepoints "
            f"{', '.join(savepoints) or 'none'}; previous checkpoints {', '.join(map(str, checkpoints)) or 'none'}",
        )

    def was_done(self, asked: Asked, since: float) -> bool:
        done = super().was_done(asked, since)
        if done:
            self.given_up(asked.space, asked.params)
        return done

    def given_up(self, space: Workspace, params: Mapping[str, Any]) -> None:
        _deletions(space, params).forget(params["deletion"])


def _deletions(space: Workspace, params: Mapping[str, Any]) -> "Deletions":
    from streamwarden.services.state.requested_deletions import Deletions

    return Deletions(space.data, params["stream"])


def _amount(counted: "Counted") -> str:
    return f"{format_count(counted.found.keys, 'key')} with {format_count(counted.found.rows, 'row')}"


def _parts(counted: "Counted") -> Iterator[str]:
    """The rows of the keys by part of the state."""
    operator = counted.operator
    yield f"operator {operator.operator} ({operator.name}), after batch {counted.batch}"
    for part in counted.found.parts:
        rows = f"{format_count(part.keys, 'key')} with {format_count(part.rows, 'row')}"
        yield f"store {part.store}, {part.family}: {rows}"
