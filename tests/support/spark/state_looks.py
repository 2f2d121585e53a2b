"""Looks at state in the session of a test, in place of a process of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamwarden.services.state import looking
from streamwarden.stream.spec import StreamSpec


def read_here(patch: pytest.MonkeyPatch, spark: Any) -> None:
    """Let the program run in `spark`, which stays open."""
    from streamwarden.spark.programs.state import main

    def run(name: str, spec: StreamSpec, folder: Path, **_: Any) -> int:
        """With the SQL settings of the process, which the session loses afterwards."""
        assert name == "state"
        before = spark.conf.getAll
        wanted = {key: value for key, value in spec.spark.conf.items() if key.startswith("spark.sql.")}
        for key, value in wanted.items():
            spark.conf.set(key, value)
        try:
            main(folder)
        finally:
            for key in wanted:
                spark.conf.set(key, before[key]) if key in before else spark.conf.unset(key)
        return 0

    patch.setattr(looking, "run_program", run)
