"""The environment in which a stream's Spark runs: its variables, and where its parts are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.jvm.environments import environment_of, named, own
from streamwarden.errors import ConfigError
from streamwarden.stream.spark import SparkSpec

OTHER = replace(own(), python="/opt/env/bin/python", prefix=Path("/opt/env"), home=Path("/opt/env/pyspark"))


def test_a_stream_without_one_runs_in_this_environment() -> None:
    here = environment_of(SparkSpec())
    assert here == own()
    assert (here.programs / "driver.py").is_file()
    assert Path(here.submit).is_file()
    assert here.minor == (4, 3)


def test_another_environment_does_not_see_the_packages_of_this_one() -> None:
    given = {"PYTHONPATH": "/here", "PYTHONHOME": "/here", "PYTHONUTF8": "1", "HOME": "/h", "VIRTUAL_ENV": "/here"}
    assert own().variables(given).items() >= given.items()
    variables = OTHER.variables(given)
    assert "PYTHONPATH" not in variables
    assert "PYTHONHOME" not in variables
    assert (variables["PYTHONUTF8"], variables["HOME"], variables["VIRTUAL_ENV"]) == ("1", "/h", "/opt/env")
    assert (variables["SPARK_HOME"], variables["PYSPARK_PYTHON"]) == ("/opt/env/pyspark", "/opt/env/bin/python")


@pytest.mark.parametrize("python", ["/none/bin/python", "python", "/"])
def test_a_path_that_is_no_interpreter_is_an_error_in_four_parts(python: str) -> None:
    with pytest.raises(ConfigError) as raised:
        named(python)
    assert raised.value.where == python
    assert "spark.python" in raised.value.next_step
