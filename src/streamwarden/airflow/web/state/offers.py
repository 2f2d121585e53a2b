"""The changes of a stream that the tab State offers: what each says and asks for, and why it is not possible.

What is not possible whatever a person asks for is found in a few small files. What depends on what is asked for, as the
batch of a rewind, says the plan of the operation, and its run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import CheckpointError, StreamwardenError
from streamwarden.lifecycle.surgery.assignment import is_assignable, require_assignable
from streamwarden.lifecycle.time_travel.tables import StateTable
from streamwarden.redaction import redacted_text
from streamwarden.services.exchanges.refusals import require_on_disk
from streamwarden.services.savepoints.restoring import require_restorable
from streamwarden.services.state import compacting, repartitioning
from streamwarden.services.state.gathering import Kept
from streamwarden.services.upgrades.proposal import require_upgradable
from streamwarden.stream.spec import StreamSpec

_NO_NUMBER: Final = 0
"""No state has so many partitions: what is refused then is refused for every number."""

_COMPARED: Final = "The copy is compared with the state, byte for byte, before it takes its place."


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A button that runs the DAG of an operation.

    Args:
        text: what is going to happen, after the approval.
        fields: of its dialog, each with `name`, `label` and `type`, attributes of its element, and the `options` of a
            choice.
        stops: the stream is stopped first, if it runs.
        planned: the API says what would be done.
        private: the address of the API that keeps the fields, so that Airflow gets an id alone; and the id's name.
        obstacle: why it is not possible; empty: it is.
    """

    dag_id: str
    label: str
    title: str
    text: str
    fields: Sequence[Mapping[str, Any]] = ()
    stops: bool = True
    planned: bool = False
    private: tuple[str, str] | None = None
    obstacle: str = ""


def offers(spec: StreamSpec, kept: Kept) -> tuple[Offer, ...]:
    """Those for a stream or a query. kept: what its checkpoint can still show."""
    name = spec.name
    return (
        Offer(
            dag_id="rewind_stream",
            label="Rewind",
            title=f"Put {name} back to an older batch?",
            text="A savepoint of that batch is taken, tried on a fork, and restored, with the output. What came after "
            "it is read again.",
            fields=_batch_or_time(kept.batches[:-1]),
            planned=True,
            obstacle=_obstacle(spec, _rewind),
        ),
        Offer(
            dag_id="repartition_stream",
            label="Repartition",
            title=f"Give the state of {name} another number of partitions?",
            text=f"A savepoint is taken, and Spark rewrites a copy of the state. {_COMPARED}",
            fields=(_number("partitions", "Partitions", 1, 100_000),),
            planned=True,
            obstacle=_obstacle(spec, _repartition),
        ),
        Offer(
            dag_id="compact_state",
            label="Compact",
            title=f"Compact the state of {name}?",
            text="Spark writes a copy of the state as one snapshot in each partition, so that the next start replays "
            f"nothing. {_COMPARED}",
            planned=True,
            obstacle=_obstacle(spec, _rewriting),
        ),
        Offer(
            dag_id="delete_keys",
            label="Delete keys",
            title=f"Delete keys from the state of {name}?",
            text="Airflow is not told which keys: name a ticket as the reason. They are counted first. Then a "
            f"savepoint is taken, and Spark writes a copy of the state without them. {_COMPARED} The savepoint and the "
            "previous checkpoint still have the keys.",
            fields=_keys(name.partition("/")[2], sorted({table.operator for table in kept.tables})),
            private=("deletions", "deletion"),
            obstacle=_obstacle(spec, _rewriting),
        ),
        Offer(
            dag_id="set_value",
            label="Set a value",
            title=f"Give a key in the state of {name} another value?",
            text="Airflow is told neither the key nor the value: name a ticket as the reason. The present value is "
            "read first. Then a savepoint is taken, and Spark writes a copy of the state with the new value. The copy "
            "takes its place only if exactly this row differs.",
            fields=_value(name.partition("/")[2], [table for table in kept.tables if is_assignable(table)]),
            private=("assignments", "assignment"),
            obstacle=_obstacle(spec, partial(_assigning, kept.tables)),
        ),
        Offer(
            dag_id="upgrade_stream",
            label="Upgrade",
            title=f"Upgrade {name} to a new version of its job?",
            text="The new version is tried on forks first, from the stream’s own state, and the request for an "
            "approval says what it changes. After the approval the stream is stopped at a batch boundary, a savepoint "
            "is taken, and the new version is started and watched.",
            fields=_VERSION,
            stops=False,
            obstacle=_obstacle(spec, require_upgradable),
        ),
    )


def _batch_or_time(batches: Sequence[int]) -> tuple[Mapping[str, Any], ...]:
    batch = {"name": "batch", "label": "Back to the end of batch", "type": "number", "min": 0}
    if batches:
        shown = f"{batches[0]} to {batches[-1]}"
        batch |= {"min": batches[0], "max": batches[-1], "placeholder": shown}
    return (
        batch,
        {"name": "time", "label": "Or to the newest batch at", "type": "datetime-local"},
        {"name": "try_first", "label": "Try it on a fork first", "type": "checkbox", "checked": True},
    )


def _number(name: str, label: str, least: int, most: int, **more: Any) -> Mapping[str, Any]:
    return {"name": name, "label": label, "type": "number", "min": least, "max": most, "required": True, **more}


_KEY: Final[Mapping[str, Any]] = {
    "name": "keys",
    "label": "Key",
    "type": "lines",
    "placeholder": "VALUE, or FIELD=VALUE for each field",
}


def _keys(query: str, operators: Sequence[int]) -> tuple[Mapping[str, Any], ...]:
    several = " or ".join(map(str, operators))
    return (
        {"name": "query", "type": "hidden", "value": query},
        _KEY,
        {"name": "where", "label": "Or all keys for which this holds", "placeholder": "key.origin = 'EWR'"},
        *([_number("operator", f"Operator: {several}", 0, operators[-1])] if len(operators) > 1 else ()),
    )


def _value(query: str, tables: Sequence[StateTable]) -> tuple[Mapping[str, Any], ...]:
    """tables: that have a value to set."""
    names = [f"{table.operator}/{table.variable}" if table.variable else str(table.operator) for table in tables]
    choice = {"label": "Part of the state", "type": "choice", "options": names}
    return (
        {"name": "query", "type": "hidden", "value": query},
        {"name": "table", **(choice if len(names) > 1 else {"type": "hidden", "value": "".join(names)})},
        {**_KEY, "required": True},
        {
            "name": "value",
            "label": "New value, with every field",
            "type": "lines",
            "placeholder": '{"FIELD": VALUE, …}, or FIELD=VALUE for each field',
            "required": True,
        },
    )


_VERSION: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "name": "job",
        "label": "New version, a file of the project; empty: complete an upgrade that was interrupted",
        "placeholder": "spark_jobs/departures_v2.py",
    },
    _number("batches", "Newest batches that both versions execute", 1, 1000, value=5),
    {"name": "beside", "label": "Run it beside the old version first, for", "placeholder": "1 hour; empty: not at all"},
    {"name": "watch", "label": "Watch the new version for", "value": "5 minutes", "required": True},
    {"name": "accept", "label": "Go on although the output differs", "type": "checkbox"},
    {"name": "rollback", "label": "Go back if the new version fails", "type": "checkbox", "checked": True},
)


def _obstacle(spec: StreamSpec, require: Callable[[StreamSpec], object]) -> str:
    try:
        require(spec)
    except StreamwardenError as error:
        return redacted_text(f"{error.observed}; next: {error.next_step}")
    except (OSError, ValueError) as error:  # Spark purges a file, or it is damaged
        return redacted_text(f"the checkpoint cannot be read: {error}")
    return ""


def _rewind(spec: StreamSpec) -> None:
    require_restorable(spec)
    if not _committed(spec):  # batch 0 has none before it
        raise CheckpointError("no batch is older than the newest one", next_step="let the stream commit more batches")


def _repartition(spec: StreamSpec) -> None:
    _committed(spec)
    repartitioning.planned(spec, _NO_NUMBER, runs=True)


def _rewriting(spec: StreamSpec) -> None:
    require_on_disk(spec)
    _committed(spec)
    compacting.planned(spec, runs=True)


def _assigning(tables: Sequence[StateTable], spec: StreamSpec) -> None:
    _rewriting(spec)
    if tables and not any(map(is_assignable, tables)):
        require_assignable(tables[0], spec.name)


def _committed(spec: StreamSpec) -> int:
    batch = log_position(checkpoint_of(spec)).committed
    if batch is None:
        raise CheckpointError("no batch was committed yet", next_step="let the stream commit a batch")
    return batch
