"""Names of stateful operators in checkpoints older than Spark 4, which do not name them: inferred from their schemas.

Spark numbers the operators of a query from the sink towards the sources.
"""

from collections.abc import Callable, Sequence
from typing import Final

from streamwarden.checkpoint.formats.schemas import ColumnFamily, StateSchema

_JOIN_STORES: Final = ("left-", "right-")
_LIMIT_KEY: Final = ("key void",)
_SESSION_START: Final = "sessionStartTime"
_GROUP_STATE: Final = "groupState"
_TIMEOUT: Final = "timeoutTimestamp"

_Rule = Callable[[ColumnFamily], bool]
_RULES: Final[Sequence[tuple[str, _Rule]]] = (
    ("globalLimit", lambda family: family.key == _LIMIT_KEY),
    ("dedupe", lambda family: family.value == ("__dummy__ void",)),
    ("dedupeWithinWatermark", lambda family: family.value == ("expiresAtMicros long",)),
    ("sessionWindowStateStoreSaveExec", lambda family: _SESSION_START in _names(family.key)),
    ("flatMapGroupsWithState", lambda family: bool({_GROUP_STATE, _TIMEOUT} & set(_names(family.value)))),
    ("stateStoreSave", lambda family: True),
)
"""Spark's name -> whether a store with this key and value is that operator's; the first rule that applies counts."""


def infer_name(stores: Sequence[str], schemas: Sequence[StateSchema]) -> str | None:
    """Spark's name of the operator that has these stores; None if no schema can be read.

    `flatMapGroupsWithState` is also its Python form `applyInPandasWithState`: both keep the same state.
    """
    if any(store.startswith(_JOIN_STORES) for store in stores):
        return "symmetricHashJoin"
    families = [family for schema in schemas for family in schema.families]
    if len(families) != 1:
        return None
    return next(name for name, applies in _RULES if applies(families[0]))


def single_partition(schemas: Sequence[StateSchema]) -> bool:
    """Whether the operator always has one partition: a global aggregation or a global limit."""
    families = [family for schema in schemas for family in schema.families]
    return len(families) == 1 and families[0].key in ((), _LIMIT_KEY)


def _names(fields: Sequence[str]) -> list[str]:
    return [field.partition(" ")[0] for field in fields]
