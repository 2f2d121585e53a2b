"""Looks at state, rewrites of it, and audits in the session of a test, in place of processes of their own."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from streamwarden.services.auditing import auditing
from streamwarden.services.state import looking, repartitioning
from streamwarden.stream.spec import StreamSpec


def read_here(patch: pytest.MonkeyPatch, spark: Any) -> None:
    """Let the programs run in `spark`, which stays open."""

    def run(name: str, spec: StreamSpec, folder: Path, **_: Any) -> int:
        """With the SQL settings of the process, which the session loses afterwards."""
        before = spark.conf.getAll
        wanted = {key: value for key, value in spec.spark.conf.items() if key.startswith("spark.sql.")}
        for key, value in wanted.items():
            spark.conf.set(key, value)
        try:
            import_module(f"streamwarden.spark.programs.{name}").main(folder)
        finally:
            for key in wanted:
                spark.conf.set(key, before[key]) if key in before else spark.conf.unset(key)
        return 0

    for module in (looking, repartitioning, auditing):
        patch.setattr(module, "run_program", run)
