"""The tables of a query's state: what can be looked at by itself.

Most operators keep one table. A join of two streams keeps one for each side, transformWithState one for each state
variable and one for its timers. Spark's reader of state takes one of them at a time.

A whole store is a table, too, for a comparison to the byte: it has what no other table shows, such as indexes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamwarden.errors import ConfigError
from streamwarden.units import format_list

_JOIN: Final = "symmetricHashJoin"
_PROCESSOR: Final = "transformWithState"
"""How the names of its three operators begin: of Scala, of Python with pandas, of Python with rows."""

_TIMERS: Final = "timers"
_EXPIRES: Final = ", expires"
"""End of a variable's kind with a time to live; see `checkpoint.formats.operators`."""

_EXPIRY: Final[Mapping[str, str]] = {
    "dedupeWithinWatermark": "expiresAtMicros",
    "flatMapGroupsWithState": "timeoutTimestamp",
    "applyInPandasWithState": "timeoutTimestamp",
}
"""Operator -> the field of its value that says when an entry expires."""


class TableKind(StrEnum):
    """Kind of a table: how its rows belong to keys."""

    ROWS = "rows"
    SIDE = "side of a join"
    VALUE = "value"
    LIST = "list"
    MAP = "map"
    TIMERS = "timers"
    STORE = "store"


_OF_VARIABLE: Final = {"ValueState": TableKind.VALUE, "ListState": TableKind.LIST, "MapState": TableKind.MAP}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """One table of state.

    Args:
        operator: its number; name: Spark's name of the operator.
        variable: a state variable, `timers`, the side of a join, or a store; None: the operator has one table.
        expiry: the field of a value that says when the entry expires; None: nothing in the state says it.
    """

    operator: int
    name: str
    kind: TableKind
    variable: str | None = None
    expiry: str | None = None

    @property
    def options(self) -> dict[str, str]:
        """Options of Spark's reader for this table."""
        options = {"operatorId": str(self.operator)}
        match self.kind:
            case TableKind.SIDE:
                options["joinSide"] = str(self.variable)
            case TableKind.TIMERS:
                options["readRegisteredTimers"] = "true"
            case TableKind.VALUE | TableKind.LIST | TableKind.MAP:
                options["stateVarName"] = str(self.variable)
        return options

    @property
    def words(self) -> str:
        """`operator 0 (transformWithStateExec), count`."""
        return f"operator {self.operator} ({self.name})" + (f", {self.variable}" if self.variable else "")


def tables_of(operator: int, name: str, variables: Mapping[str, str]) -> list[StateTable]:
    """The tables of an operator.

    Args:
        name: Spark's.
        variables: of transformWithState, name -> kind; see `OperatorMetadata`.
    """
    if name == _JOIN:
        return [
            StateTable(operator=operator, name=name, kind=TableKind.SIDE, variable=side) for side in ("left", "right")
        ]
    if name.startswith(_PROCESSOR):
        return _of_processor(operator, name, variables)
    return [StateTable(operator=operator, name=name, kind=TableKind.ROWS, expiry=_EXPIRY.get(name))]


def _of_processor(operator: int, name: str, variables: Mapping[str, str]) -> list[StateTable]:
    own = {variable: kind for variable, kind in variables.items() if not variable.startswith("$")}  # not Spark's own
    tables = [
        StateTable(
            operator=operator,
            name=name,
            kind=_OF_VARIABLE[kind.removesuffix(_EXPIRES)],
            variable=variable,
            expiry="ttlExpirationMs" if kind.endswith(_EXPIRES) else None,
        )
        for variable, kind in sorted(own.items())
        if kind.removesuffix(_EXPIRES) in _OF_VARIABLE
    ]
    if len(own) < len(variables):
        timers = f"${_TIMERS}" if _TIMERS in own else _TIMERS
        tables.append(StateTable(operator=operator, name=name, kind=TableKind.TIMERS, variable=timers))
    return tables


def stores_of(operator: int, name: str, stores: Sequence[str]) -> list[StateTable]:
    """The whole stores of an operator, for a comparison."""
    return [StateTable(operator=operator, name=name, kind=TableKind.STORE, variable=store) for store in stores]


def choose_table(tables: Sequence[StateTable], operator: int | None, variable: str | None, where: str) -> StateTable:
    """The table that was asked for. Raises ConfigError, with those that there are, unless it is exactly one."""
    matching = [
        table
        for table in tables
        if (operator is None or table.operator == operator) and (variable is None or table.variable == variable)
    ]
    if len(matching) == 1:
        return matching[0]
    asked = [f"operator {operator}"] if operator is not None else []
    asked += [f"the variable {variable!r}"] if variable is not None else []
    observed = f"the state has no table of {format_list(asked)}" if not matching else "the state has several tables"
    raise ConfigError(
        observed,
        expected=f"one of: {'; '.join(_named(table) for table in matching or tables)}",
        where=where,
        next_step="name one with these options",
    )


def _named(table: StateTable) -> str:
    """The options that name a table, and what it is."""
    variable = f" --variable {table.variable}" if table.variable else ""
    return f"--operator {table.operator}{variable} ({table.name}, {table.kind})"
