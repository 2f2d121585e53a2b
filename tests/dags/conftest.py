"""Airflow reads its settings when it is first imported: give it a home that is thrown away."""

from __future__ import annotations

import os
import tempfile

_HOME = tempfile.TemporaryDirectory(prefix="airflow-home-", ignore_cleanup_errors=True)
os.environ.setdefault("AIRFLOW_HOME", _HOME.name)
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")


def pytest_unconfigure() -> None:
    """A worker of pytest-xdist does not end as a program does: what waits for the end of one would be left out."""
    _HOME.cleanup()
