"""Whether a storage that is silent on this host is read by another one, by what the others answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from streamwarden.lifecycle.driver import DriverEvent
from streamwarden.lifecycle.hosts.elsewhere import answer, question, reached_by

ASKED = question("d", 1_000.0, checkpoint="/cp", connection=None, metadata="{}")
BEFORE = replace(ASKED, at=900.0)


@pytest.mark.parametrize(
    ("answers", "drained", "expected"),
    [
        ((), (), None),
        ((answer(ASKED, "two", 1_001.0),), (), "two"),
        ((answer(BEFORE, "two", 1_001.0),), (), None),  # of an earlier silence
        ((answer(ASKED, "one", 1_001.0),), (), None),  # this host itself
        ((answer(ASKED, "two", 1_001.0),), ("two",), None),  # it may start nothing
        ((answer(ASKED, "two", 1_001.0), answer(ASKED, "three", 1_002.0)), ("two",), "three"),
    ],
)
def test_a_host_counts_that_has_answered_this_question(
    answers: Sequence[DriverEvent], drained: Sequence[str], expected: str | None
) -> None:
    assert reached_by(answers, ASKED, here="one", drained=drained) == expected
