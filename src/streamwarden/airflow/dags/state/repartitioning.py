"""`repartition_stream`: gives the state of a stream another number of partitions."""

from collections.abc import Mapping
from typing import Any, Final

from airflow.sdk import Param

from streamwarden.airflow.dags.controls import REASON
from streamwarden.airflow.dags.state.operations import STOP_FIRST, Asked, Checked, Done, Operation

_DOC: Final = """\
Gives the state of a stream another number of partitions, which a checkpoint fixes at its first batch.

After a person's approval a savepoint is taken, Spark rewrites the state of a copy, and the copy is compared with the
stream's state before it takes the place of the checkpoint. The previous checkpoint is kept. A stream that runs is
refused, unless the form says that it may be stopped at a batch boundary: then it is started again afterwards. A
repartition that was interrupted is completed by another run with the same number. State of RocksDB only. On a shell:
`streamwarden repartition`.
"""


class Repartition(Operation):
    """Gives a state another number of partitions."""

    dag_id, doc, name = "repartition_stream", _DOC, "repartition"

    def fields(self) -> dict[str, Param]:
        return {
            "partitions": Param(
                type="integer",
                minimum=1,
                maximum=100_000,
                title="Partitions",
                description="How many partitions the state shall have",
            ),
            "reason": REASON,
            "stop_first": STOP_FIRST,
        }

    def check(self, asked: Asked) -> Checked:
        from streamwarden.lifecycle.exchanges.repartition import subject
        from streamwarden.services.exchanges.journals import interrupted, require_same
        from streamwarden.services.state.repartitioning import planned

        spec, wanted = asked.spec, asked.params["partitions"]
        begun = interrupted(spec)
        require_same(begun, subject(wanted))
        if begun is not None:
            state = "A repartition was interrupted, and is completed."
        else:
            plan = planned(spec, wanted, runs=asked.runs)
            state = f"from {plan.before} to {plan.after} partitions; the added batch reads nothing and writes no row."
        return Checked(
            subject=f"Give the state of the stream {spec.name} {wanted} partitions?",
            said={"State": state, "The way back": "a savepoint is taken first; nothing of the output is taken back."},
        )

    def carry_out(self, asked: Asked, details: Mapping[str, Any]) -> Done:
        from streamwarden.services.savepoints.describing import Author
        from streamwarden.services.state.repartitioning import repartition

        author, wanted = Author(by=asked.by, reason=asked.params["reason"]), asked.params["partitions"]
        done = repartition(asked.space.store, asked.spec, wanted, author, tell=asked.tell)
        made, saved = done.exchanged, done.savepoint
        return Done(
            sentence=f"the state of {asked.spec.name} has {wanted} partitions, as of batch {made.exchange.batch}",
            more=f"output: {made.output}; previous checkpoint: {made.aside or 'there was none'}; savepoint: "
            f"{saved.id if saved else 'taken before'}; next: set `state.shuffle_partitions: {wanted}` in the stream's "
            "file, for a checkpoint that begins anew",
        )
