"""The buttons of a stream's page, by its state."""

from __future__ import annotations

from typing import get_args

import pytest

from streamwarden.airflow.web.words.verbs import verbs
from streamwarden.services.overview.standing import LACKING
from streamwarden.services.overview.status import State


@pytest.mark.parametrize("state", get_args(State))
def test_each_state_has_at_most_one_primary_verb_and_it_comes_first(state: State) -> None:
    primary = [verb for verb in verbs(state) if verb.style == "primary"]
    assert primary == list(verbs(state)[: len(primary)])
    assert len(primary) <= 1


@pytest.mark.parametrize("state", LACKING)
def test_a_stream_that_lacks_its_driver_has_a_primary_verb(state: State) -> None:
    assert verbs(state)[0].style == "primary"


def test_what_runs_cannot_be_started_and_what_rests_cannot_be_stopped() -> None:
    assert [verb.name for verb in verbs("running")] == ["restart", "stop"]
    assert [verb.name for verb in verbs("stopped")] == ["start"]
