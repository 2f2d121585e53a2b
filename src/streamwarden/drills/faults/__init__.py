"""The faults that a drill can name: each class of this folder's modules that gives itself a kind."""

from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from inspect import get_annotations
from pkgutil import walk_packages
from typing import Annotated, Final

from streamwarden.drills.faults.base import Course, ExpectedEnd, Fault, FaultContext, Proof, RefusalFault
from streamwarden.drills.records.codec import ByKind


def _found() -> Iterator[type[Fault]]:
    """A class that inherits its kind is the fault of that kind with certain options: see `Fault.chosen`."""
    for module in walk_packages(__path__, f"{__name__}."):
        for found in vars(import_module(module.name)).values():
            own = isinstance(found, type) and issubclass(found, Fault) and found.__module__ == module.name
            if own and found is not Fault and "kind" in get_annotations(found):
                yield found


FAULTS: Final[dict[str, type[Fault]]] = dict(sorted((str(fields(fault)[0].default), fault) for fault in _found()))
"""The faults by their kinds, in alphabetical order."""

AnyFault = Annotated[Fault, ByKind(FAULTS)]
"""The type of a field that holds one of them."""

__all__ = [
    "FAULTS",
    "AnyFault",
    "Course",
    "ExpectedEnd",
    "Fault",
    "FaultContext",
    "Proof",
    "RefusalFault",
]
