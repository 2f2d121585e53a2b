"""What each fault declares for the page docs/faults.md, and that the declaration is the one that drills use."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from reference_pages.faults import EXPECTED, page
from streamwarden.drills.faults import FAULTS, Aftermath, RefusalFault
from streamwarden.drills.faults.base import Description
from streamwarden.drills.records.sections import OPTIONS, FaultKind
from support.drill_specs import drill


def descriptions(kind: FaultKind) -> list[Description]:
    fault = FAULTS[kind]
    return [fault.description, *(each for _, each in fault.variants.values())]


@pytest.mark.parametrize("kind", FaultKind)
def test_each_description_is_whole_sentences(kind: FaultKind) -> None:
    for each in descriptions(kind):
        for text in astuple(each):
            assert text[0].isupper() or text[0] == "`", text
            assert text.endswith("."), text


@pytest.mark.parametrize("kind", FaultKind)
def test_a_fault_that_must_be_refused_says_how_that_is_judged(kind: FaultKind) -> None:
    """The engine decides by the protocol, the page by the declaration."""
    chosen = FAULTS[kind].chosen(drill(kind).sequence[0])
    assert isinstance(chosen, RefusalFault) is (chosen.aftermath is Aftermath.REFUSES)


def test_every_option_belongs_to_a_fault_and_every_outcome_has_words() -> None:
    used = {option for fault in FAULTS.values() for option in (*fault.needs, *fault.takes)}
    assert used == set(OPTIONS)
    assert set(EXPECTED) == set(Aftermath)


def test_the_page_has_each_fault_and_each_variant() -> None:
    text = page()
    for kind, fault in FAULTS.items():
        assert f"\n## {kind}\n" in text
        assert all(f"| `{spelled}` |" in text for spelled in fault.variants)
