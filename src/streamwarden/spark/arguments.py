"""Calls from Python into the JVM that do not import NumPy, pandas and PyArrow.

PySpark asks of each argument of a call whether it is one of NumPy's. For that it imports its own test tools, which
import all three if they are installed: half a second of each driver's start, and 100 MB of its memory.
"""

from __future__ import annotations

import functools
import sys
from typing import Any


def without_numpy() -> None:
    """From now on, ask PySpark only in a process that has imported NumPy: elsewhere no argument can be one of its
    objects."""
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    for converter in (NumpyArrayConverter, NumpyScalarConverter):
        _ask_less(converter)


def _ask_less(converter: Any) -> None:
    asked = converter.can_convert

    @functools.wraps(asked)
    def can_convert(self: Any, argument: Any) -> bool:
        return "numpy" in sys.modules and bool(asked(self, argument))

    converter.can_convert = can_convert
