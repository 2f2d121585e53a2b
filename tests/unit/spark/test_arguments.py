"""A driver that does not use NumPy does not import it for PySpark's sake. Each question needs a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json, sys
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter
{first}
answers = [NumpyScalarConverter().can_convert("text"), NumpyArrayConverter().can_convert("text")]
imported = sorted({{"numpy", "pandas", "pyarrow"}} & set(sys.modules))
import numpy
answers += [NumpyScalarConverter().can_convert(numpy.int64(1)), NumpyArrayConverter().can_convert(numpy.array([1]))]
print(json.dumps([answers, imported]))
"""
SPARED = "from streamwarden.spark.arguments import without_numpy; without_numpy()"


def asked(first: str) -> tuple[list[bool], list[str]]:
    """Whether each argument is one of NumPy's, and what the question about a text imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    answers, imported = json.loads(done.stdout)
    return answers, imported


def test_a_text_is_passed_without_an_import_and_an_object_of_numpy_is_still_known() -> None:
    assert asked(SPARED) == ([False, False, True, True], [])


def test_pyspark_alone_imports_all_three_for_a_text() -> None:
    """The other way round: if this fails, PySpark asks without them, and `spark/arguments.py` can go."""
    assert asked("") == ([False, False, True, True], ["numpy", "pandas", "pyarrow"])
