"""A module below `drills/faults` that declares a kind is a fault, without a line elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

from streamwarden.drills import faults
from streamwarden.drills.faults import FAULTS
from streamwarden.drills.faults.checkpoint_damage import CheckpointDamage, RefusedDamage
from streamwarden.drills.faults.service_outage import ServiceOutage, StoreOutage

FOLDER = Path(faults.__file__).parent


def test_each_kind_that_a_module_declares_is_found() -> None:
    declared = [
        kind
        for file in FOLDER.rglob("*.py")
        for kind in re.findall(r'^    kind: str = "(\w+)"', file.read_text(), re.M)
    ]
    assert len(declared) > 15
    assert list(FAULTS) == sorted(declared)


def test_a_class_that_inherits_its_kind_does_not_replace_it() -> None:
    assert FAULTS["checkpoint_damage"] is CheckpointDamage is not RefusedDamage
    assert FAULTS["service_outage"] is ServiceOutage is not StoreOutage
