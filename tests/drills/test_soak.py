"""A short soak: ten kills in every phase of one stream's batches, and not a row lost, duplicated or wrong.

In the first tier spark/proofs/test_crash_matrix starts from what a kill can leave.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

from streamwarden.drills.records.phases import BatchPhase

pytestmark = [pytest.mark.spark, pytest.mark.full]

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak" / "run.py"
KILLS = 10
RECORDS = 15_000
"""30 batches, of which the lives that are killed need at most two each and one that is begun."""


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak", SOAK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_ten_kills_change_no_row(soak: ModuleType) -> None:
    runs = soak.soak(None, KILLS, random.Random(1), records=RECORDS, commits=2)
    kills = [kill for run in runs for kill in run.kills]
    assert len(kills) == KILLS
    assert sum(len(run.recoveries) for run in runs) == KILLS
    for run in runs:
        assert run.outcome.exactly_once, soak.summary(run.outcome)
    assert {str(phase) for phase in BatchPhase} <= {kill.place for kill in kills}
