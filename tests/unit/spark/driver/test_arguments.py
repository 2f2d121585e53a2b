"""A driver that does not use NumPy does not import it for PySpark's sake. Each question needs a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest

FORKS = """
import json, os, sys, traceback
import pyspark.sql.types
for line in sys.stdin:
    if os.fork() == 0:
        try:
            exec(json.loads(line), {})
        except BaseException:
            print(json.dumps([traceback.format_exc()]))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""
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


@cache
def importer() -> subprocess.Popen[str]:
    """A process with PySpark, which forks one for each program that it is told."""
    return subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    importer().communicate()


def answer(program: str, first: str) -> list[object]:
    """What the program prints, with `first` done first."""
    process = importer()
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps(program.format(first=first)), file=process.stdin, flush=True)
    printed: list[object] = json.loads(process.stdout.readline())
    return printed


def test_a_text_is_passed_without_an_import_and_an_object_of_numpy_is_still_known() -> None:
    assert answer(CONVERTERS, SPARED) == [[False, False, True, True], []]


def test_pyspark_alone_imports_all_three_for_a_text() -> None:
    """The other way round: if this fails, PySpark asks without them, and `spark/driver/skip_numpy.py` can go."""
    assert answer(CONVERTERS, "") == [[False, False, True, True], ["numpy", "pandas", "pyarrow"]]


def test_a_job_that_wants_the_test_tools_gets_them() -> None:
    assert answer(TEST_TOOLS, SPARED) == ["pyspark.testing.utils", True]
