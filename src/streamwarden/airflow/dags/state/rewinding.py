"""`rewind_stream`: puts a stream back to an older batch, which its checkpoint still keeps."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from airflow.sdk import Param

from streamwarden.airflow.dags.controls import REASON
from streamwarden.airflow.dags.state.forms import number
from streamwarden.airflow.dags.state.operations import STOP_FIRST, Asked, Checked, Done, Operation
from streamwarden.airflow.dags.state.restoring import TRY_FIRST, put_back, request, taken_back
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.exchanges.exchange import RESTORED

_DOC: Final = """\
Puts a stream back to an older batch, which its checkpoint still keeps.

Name the batch, or a time: then it is the newest batch that was planned by then. After a person's approval a savepoint
of that batch is taken, tried on a fork, and restored, with the output. The previous checkpoint and the data files of
later batches are kept. A stream that runs is refused, unless the form says that it may be stopped at a batch boundary:
then it is started again afterwards. A rewind that was interrupted is completed by another run for the same batch. On a
shell: `streamwarden rewind`.
"""


class Rewind(Operation):
    """Puts a stream back to an older batch of its own checkpoint."""

    dag_id, doc, name, event = "rewind_stream", _DOC, "rewind", RESTORED

    def fields(self) -> dict[str, Param]:
        return {
            "batch": number("Batch", "Go back to the end of this batch; or name a time"),
            "time": Param(
                None,
                type=["null", "string"],
                format="date-time",
                title="Time",
                description="Go back to the newest batch that was planned then or before; or name a batch",
            ),
            "reason": REASON,
            "stop_first": STOP_FIRST,
            "try_first": TRY_FIRST,
        }

    def check(self, asked: Asked) -> Checked:
        from streamwarden.services.exchanges.journals import interrupted
        from streamwarden.services.savepoints.previewing import preview_rewind
        from streamwarden.services.savepoints.rewinding import Target

        spec, (batch, at) = asked.spec, _target(asked)
        begun, remains = interrupted(spec), ""
        if begun is None or not begun.goes_back or begun.batch != batch:
            plan = preview_rewind(spec, Target(batch=batch, at=at))
            batch, remains = plan.batch, plan.remains
        return Checked(
            subject=f"Put the stream {spec.name} back to batch {batch}?",
            said={"Batch": f"{batch}. A savepoint of it is taken.", **taken_back(spec, batch or 0, remains)},
            details={"batch": batch},
        )

    def carry_out(self, asked: Asked, details: Mapping[str, Any]) -> Done:
        """The batch is the one that was approved, also if a time was asked for."""
        from streamwarden.services.exchanges.journals import interrupted
        from streamwarden.services.savepoints.restoring import restore
        from streamwarden.services.savepoints.rewinding import Target, rewind

        store, spec, batch = asked.space.store, asked.spec, details["batch"]
        begun = interrupted(spec)
        if begun is not None and begun.goes_back and begun.batch == batch:
            return put_back(restore(store, spec, None, request(asked)))
        return put_back(rewind(store, spec, Target(batch=batch), request(asked)))


def _target(asked: Asked) -> tuple[int | None, float | None]:
    """Batch and time, of which the form has one. Raises ConfigError."""
    batch, at = asked.params["batch"], asked.params["time"]
    if (batch is None) == (not at):
        raise ConfigError(
            "the form names both a batch and a time" if at else "the form names neither a batch nor a time",
            expected="one of them",
            where=asked.spec.name,
            next_step="run the DAG again with one of them",
        )
    return batch, datetime.fromisoformat(at).timestamp() if at else None
