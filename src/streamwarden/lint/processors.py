"""What bounds the state of a StatefulProcessor: read from its class, which is not run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from streamwarden.lint.facts import Bound
from streamwarden.lint.values import Class, Constant, Value

_TTL_AT: Final = {"getValueState": 2, "getListState": 2, "getMapState": 3}
"""State variable -> position of its `ttlDurationMs` among the arguments (PySpark 4.3)."""

_CLEARS: Final = frozenset({"clear", "removeKey", "remove", "deleteIfExists"})


def bound_of(processor: Class, fields: Mapping[str, Value]) -> tuple[Bound, str]:
    """(what removes its state, why that is thought).

    Args:
        fields: what is known of `self.NAME`, for a time to live that was handed to `__init__`.
    """
    calls = [each for each in ast.walk(processor.node) if isinstance(each, ast.Call)]
    called = [each.func.attr for each in calls if isinstance(each.func, ast.Attribute)]
    variables = [each for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr in _TTL_AT]
    name = processor.node.name
    if not variables:
        return Bound.UNKNOWN, f"{name} declares no state variable of its own"
    lasting = [each for each in variables if not _expires(each, fields)]
    if not lasting:
        return Bound.TTL, f"all state variables of {name} have a time to live"
    clears = bool(_CLEARS & set(called))
    if "registerTimer" in called:
        if clears:
            return Bound.TIMERS, f"{name} registers timers and clears state"
        return Bound.UNCLEARED, f"{name} registers timers, and never clears a state variable"
    told = ", ".join(_name(each) for each in lasting)
    if clears:
        return Bound.NONE, f"{name} clears {told} only when a row comes: no timer and no time to live ends a silent key"
    return Bound.NONE, f"{told} of {name}: no timer, no time to live, and nothing clears it"


def _expires(call: ast.Call, fields: Mapping[str, Value]) -> bool:
    assert isinstance(call.func, ast.Attribute)
    given = next((each.value for each in call.keywords if each.arg == "ttlDurationMs"), None)
    at = _TTL_AT[call.func.attr]
    if given is None and len(call.args) > at:
        given = call.args[at]
    if given is None:
        return False
    if isinstance(given, ast.Constant):
        return bool(given.value)
    if isinstance(given, ast.Attribute) and isinstance(given.value, ast.Name) and given.value.id == "self":
        value = fields.get(given.attr)
        if isinstance(value, Constant):
            return bool(value.value)
    return True  # an expression: somebody thought of it


def _name(call: ast.Call) -> str:
    if call.args and isinstance(call.args[0], ast.Constant):
        return repr(call.args[0].value)
    return "a state variable"
