"""The stateful operators that an audit can balance: each module of this folder names its own in `OPERATORS`."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from streamwarden.spark.audit.books import Sides
from streamwarden.spark.audit.context import Audited


def _found() -> dict[str, Callable[[Audited], Sides]]:
    modules = [import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__)]
    return {operator: module.sides for module in modules for operator in module.OPERATORS}


BALANCED: Final[Mapping[str, Callable[[Audited], Sides]]] = _found()
"""Operator of a logical plan -> what makes the sides of its books."""
