"""A short soak: kills at random moments of one stream, and not a row lost, duplicated or wrong."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.spark

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak" / "run.py"
A_KILL = 1_500
"""Records of the three batches that a life which is killed needs: at most two, and one that is begun."""


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak", SOAK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("number", [3, pytest.param(10, marks=pytest.mark.full)])
def test_kills_change_no_row(soak: ModuleType, number: int) -> None:
    runs = soak.soak(None, number, random.Random(1), records=number * A_KILL, commits=2)
    kills = [kill for run in runs for kill in run.kills]
    assert len(kills) == number
    assert sum(len(run.recoveries) for run in runs) == number
    for run in runs:
        assert run.outcome.exactly_once, soak.summary(run.outcome)
    assert any("the next batch is not planned" not in kill.window for kill in kills), "no kill fell into a batch"
