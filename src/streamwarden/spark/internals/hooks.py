"""Calls of PySpark's methods that go through Streamwarden first, so that a job need not know of it."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import py4j
import pyspark

SPARKS_CODE: Final = tuple(f"{Path(str(package.__file__)).parent}{os.sep}" for package in (pyspark, py4j))
"""The folders of PySpark's own code, whose frames stand between a job's call and what Spark does for it."""


def around(owner: type, name: str, call: Callable[..., Any]) -> None:
    """From now on, a call of the method `name` is one of `call`, which gets the method and then the arguments."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def called(*args: Any, **options: Any) -> Any:
        return call(method, *args, **options)

    setattr(owner, name, called)
