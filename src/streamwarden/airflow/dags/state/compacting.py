"""`compact_state`: writes the state of a stream as one snapshot in each partition."""

from collections.abc import Mapping
from typing import Any, Final

from airflow.sdk import Param

from streamwarden.airflow.dags.controls import REASON
from streamwarden.airflow.dags.state.operations import STOP_FIRST, Asked, Checked, Done, Operation

_DOC: Final = """\
Writes the state of a stream as one snapshot in each partition, so that its next start replays nothing.

After a person's approval Spark writes the state into a copy, which is compared with the stream's state, byte for byte,
before it takes the place of the checkpoint. The previous checkpoint is kept. A stream that runs is refused, unless the
form says that it may be stopped at a batch boundary: then it is started again afterwards. A compaction that was
interrupted is completed by another run. State of RocksDB only. On a shell: `streamwarden state compact`.
"""


class Compaction(Operation):
    """Compacts a state."""

    dag_id, doc, name = "compact_state", _DOC, "compaction"

    def fields(self) -> dict[str, Param]:
        return {"reason": REASON, "stop_first": STOP_FIRST}

    def check(self, asked: Asked) -> Checked:
        from streamwarden.services.exchanges.journals import interrupted, require_same
        from streamwarden.services.state.compacting import SUBJECT, planned

        begun = interrupted(asked.spec)
        require_same(begun, SUBJECT)
        state = (
            f"{planned(asked.spec, runs=asked.runs)} become one snapshot in each partition, with the same content."
            if begun is None
            else "A compaction was interrupted, and is completed."
        )
        return Checked(
            subject=f"Compact the state of the stream {asked.spec.name}?",
            said={"State": state, "Afterwards": "forks, savepoints and looks reach no further back than this batch."},
        )

    def carry_out(self, asked: Asked, details: Mapping[str, Any]) -> Done:
        from streamwarden.services.savepoints.describing import Author
        from streamwarden.services.state.compacting import compact

        done = compact(asked.space.store, asked.spec, Author(by=asked.by, reason=asked.params["reason"]))
        return Done(
            sentence=f"the state of {asked.spec.name} has {done.after}; its content is as it was",
            more=f"before: {done.before or 'not known'}; previous checkpoint: {done.exchanged.aside}",
        )
