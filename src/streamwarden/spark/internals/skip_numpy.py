"""PySpark without NumPy, pandas and PyArrow, in a driver whose job does not use them.

PySpark asks of each argument of a call into the JVM, and of each literal, whether it is one of NumPy's. To learn if
NumPy is installed it imports its own test tools, which import all three: 0.4 s of a processor at each driver's start,
and 84 MB of memory.
"""

import importlib
import sys
from types import ModuleType
from typing import Any, Final

ASKED: Final = "pyspark.testing.utils"
"""The module in which PySpark looks up `have_numpy`."""


def without_numpy() -> None:
    """From now on, PySpark learns that NumPy is there only in a process that has imported it: elsewhere no argument can
    be one of its objects."""
    if ASKED not in sys.modules:
        sys.modules[ASKED] = _TestTools(ASKED)


class _TestTools(ModuleType):
    """Answers the one question, and is replaced by the real module as soon as anything else is asked."""

    def __getattr__(self, name: str) -> Any:
        if name == "have_numpy":
            return "numpy" in sys.modules
        if name.startswith("__"):  # what inspects all modules does not ask for the test tools
            raise AttributeError(name)
        if sys.modules.get(ASKED) is self:
            del sys.modules[ASKED]
        return getattr(importlib.import_module(ASKED), name)
