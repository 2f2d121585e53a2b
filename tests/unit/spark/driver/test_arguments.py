"""A driver that does not use NumPy does not import it for PySpark's sake. Each question needs a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

SPARED = "from streamwarden.spark.internals.skip_numpy import without_numpy; without_numpy()"
CONVERTERS = """
import json, sys
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter
{first}
answers = [NumpyScalarConverter().can_convert("text"), NumpyArrayConverter().can_convert("text")]
imported = sorted({{"numpy", "pandas", "pyarrow"}} & set(sys.modules))
import numpy
answers += [NumpyScalarConverter().can_convert(numpy.int64(1)), NumpyArrayConverter().can_convert(numpy.array([1]))]
print(json.dumps([answers, imported]))
"""
TEST_TOOLS = """
import json, sys
{first}
from pyspark.testing import assertDataFrameEqual
from pyspark.testing.utils import have_numpy
print(json.dumps([assertDataFrameEqual.__module__, have_numpy]))
"""


def answer(program: str, first: str) -> list[object]:
    """What the program prints, with `first` done first."""
    command = [sys.executable, "-c", program.format(first=first)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    printed: list[object] = json.loads(done.stdout)
    return printed


def test_a_text_is_passed_without_an_import_and_an_object_of_numpy_is_still_known() -> None:
    assert answer(CONVERTERS, SPARED) == [[False, False, True, True], []]


def test_pyspark_alone_imports_all_three_for_a_text() -> None:
    """The other way round: if this fails, PySpark asks without them, and `spark/driver/skip_numpy.py` can go."""
    assert answer(CONVERTERS, "") == [[False, False, True, True], ["numpy", "pandas", "pyarrow"]]


def test_a_job_that_wants_the_test_tools_gets_them() -> None:
    assert answer(TEST_TOOLS, SPARED) == ["pyspark.testing.utils", True]
