"""Bounds of the state of a StatefulProcessor, read from the names of the methods that its class calls.

The logical plan holds the processor as pickled code, so its class is the only place that shows this.
"""

import ast
from typing import Final

from streamwarden.checkpoint.spark_version import TTL_ARGUMENT
from streamwarden.lint.facts import Bound

_CLEARS: Final = frozenset({"clear", "removeKey", "remove", "deleteIfExists"})


def bound_of(tree: ast.Module) -> tuple[Bound, str]:
    """(what removes state of the job's processor, how that is known). Unknown if the job has not exactly one."""
    classes = {node.name: _calls(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    processors = [name for name, calls in classes.items() if TTL_ARGUMENT.keys() & calls.keys()]
    if len(processors) != 1:
        return Bound.UNKNOWN, f"the job's text has {len(processors)} classes that declare state variables, not one"
    (name,) = processors
    calls = classes[name]
    lives = [_expires(call, at) for method, at in TTL_ARGUMENT.items() for call in calls.get(method, ())]
    clears = bool(_CLEARS & calls.keys())
    if all(lives):
        return Bound.TTL, f"all state variables of {name} have a time to live"
    if "registerTimer" in calls and clears:
        return Bound.TIMERS, f"{name} registers timers and clears state"
    if None in lives:
        return Bound.UNKNOWN, f"the time to live of a state variable of {name} is not a constant"
    if "registerTimer" in calls:
        return Bound.UNCLEARED, f"{name} registers timers, and never clears a state variable"
    cleared = "clears state only when a row comes" if clears else "never clears state"
    return Bound.NONE, f"{name} {cleared}, and has no timer and no time to live that ends a silent key"


def _calls(node: ast.ClassDef) -> dict[str, list[ast.Call]]:
    """Method -> its calls in the class."""
    calls: dict[str, list[ast.Call]] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            calls.setdefault(part.func.attr, []).append(part)
    return calls


def _expires(call: ast.Call, at: int) -> bool | None:
    """Whether the state variable has a time to live; None if only a run knows."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "ttlDurationMs"), None)
    if given is None and len(call.args) > at:
        given = call.args[at]
    if given is None:
        return False
    return bool(given.value) if isinstance(given, ast.Constant) else None
