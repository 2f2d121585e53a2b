"""What each fault declares for the page docs/faults.md, and that the declaration is the one that drills use."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from reference_pages.faults import EXPECTED, page
from streamwarden.drills.faults import FAULTS, ExpectedEnd, RefusalFault
from streamwarden.drills.faults.base import Description
from streamwarden.drills.faults.checkpoint_damage import RefusedDamage
from support.simulated.drill_specs import drill


def descriptions(kind: str) -> list[Description]:
    fault = FAULTS[kind]
    return [fault.description, *(each for _, each in fault.variants.values())]


@pytest.mark.parametrize("kind", FAULTS)
def test_each_description_is_whole_sentences(kind: str) -> None:
    for each in descriptions(kind):
        for text in astuple(each):
            assert text[0].isupper() or text[0] == "`", text
            assert text.endswith("."), text


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_that_must_be_refused_says_how_that_is_judged(kind: str) -> None:
    """The engine decides by the protocol, the page by the declaration."""
    chosen = drill(kind).sequence[0].chosen
    assert isinstance(chosen, RefusalFault) is (chosen.expected_end is ExpectedEnd.REFUSES)


def test_what_to_do_after_a_refusal_is_the_next_step_of_its_cause() -> None:
    """It is written once, in the table of causes: the exit, the page and the incident say the same."""
    refused = [fault for kind in FAULTS if isinstance(fault := drill(kind).sequence[0].chosen, RefusalFault)]
    assert {fault.kind for fault in refused} == {"input_gone", "retention_passed", "topic_recreated"}
    for fault in refused:
        assert fault.description.next_step.startswith(fault.cause.advice)
    damages = FAULTS["checkpoint_damage"].variants.values()
    told = {described.next_step for end, described in damages if end is ExpectedEnd.REFUSES}
    assert told == {RefusedDamage.cause.advice}


def test_every_outcome_has_words() -> None:
    assert set(EXPECTED) == set(ExpectedEnd)


def test_the_page_has_each_fault_and_each_variant() -> None:
    text = page()
    for kind, fault in FAULTS.items():
        assert f"\n## {kind}\n" in text
        assert all(f"| `{spelled}` |" in text for spelled in fault.variants)
