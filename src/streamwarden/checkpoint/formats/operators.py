"""The metadata of stateful operators, `state/OPERATOR/_metadata`, which Spark 4 and later write."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import (
    STATE,
    Damaged,
    batch_ids,
    is_number,
    list_or_empty,
    parse_object,
    read_log_file,
)


class Foreign(Damaged):
    """The metadata is of another operator: Spark compares it with the query, and refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorMetadata:
    """Args: name: Spark's short name (`stateStoreSave`, `symmetricHashJoin`, …); partitions: of its state;
    schema_files: names of the schema files (format 3) that it names, oldest first;
    variables: of transformWithState, name -> `ValueState`, `MapState, expires`, ….
    """

    operator: int
    version: int
    name: str
    partitions: int | None
    stores: tuple[str, ...]
    schema_files: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def operator_metadata_path(checkpoint: Location, operator: int) -> str | None:
    """Path of an operator's metadata below the checkpoint; the newest if there are several; None if there is none.

    Format 1 is one file; format 2 (transformWithState) a folder with one file a batch that changed it.
    """
    folder = join(STATE, str(operator), "_metadata")
    second = join(folder, "v2")
    batches = batch_ids(list_or_empty(checkpoint / second))
    if batches:
        return join(second, str(batches[-1]))
    return join(folder, "metadata") if "metadata" in list_or_empty(checkpoint / folder) else None


def read_operator_metadata(checkpoint: Location, operator: int, where: str) -> OperatorMetadata:
    """Raises Damaged, Foreign if it is of another operator, FileNotFoundError."""
    log = read_log_file(checkpoint / where)
    body = parse_object("".join(log.lines))
    info, stores = body.get("operatorInfo"), body.get("stateStoreInfo")
    if not isinstance(info, dict) or not isinstance(stores, list) or not all(_is_store(store) for store in stores):
        raise Damaged("it names no operator or no stores")
    if info.get("operatorId") != operator or not isinstance(info.get("operatorName"), str):
        raise Foreign(f"it is of operator {str(info.get('operatorId'))[:20]}, {str(info.get('operatorName'))[:40]!r}")
    return OperatorMetadata(
        operator=operator,
        version=log.version,
        name=str(info.get("operatorName")),
        partitions=max((store["numPartitions"] for store in stores), default=None),
        stores=tuple(str(store.get("storeName")) for store in stores),
        variables=_variables(body.get("operatorPropertiesJson")),
        schema_files=tuple(
            str(path).rpartition("/")[2] for store in stores for path in _paths(store.get("stateSchemaFilePaths"))
        ),
    )


def _is_store(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("storeName"), str) and is_number(value.get("numPartitions"))


def _paths(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _variables(properties: object) -> dict[str, str]:
    """From the properties of transformWithState: JSON as text. Other operators have none."""
    variables = parse_object(properties).get("stateVariables") if isinstance(properties, str) else None
    return {
        str(variable.get("stateName")): str(variable.get("stateVariableType"))
        + (", expires" if variable.get("ttlEnabled") else "")
        for variable in (variables if isinstance(variables, list) else ())
        if isinstance(variable, dict)
    }
