"""Models that are derived from dataclasses: nothing is declared or described twice."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest
from pydantic import ValidationError

from streamwarden.checkpoint.diagnosis.report import CheckpointReport
from streamwarden.health.incidents.incident import Incident
from streamwarden.lifecycle.driver import ExitRecord
from streamwarden.services.overview.models import Model, derived, field_texts
from streamwarden.services.state.requested.assignments import AssignmentRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Args: planned, committed: ids of batches; at: Unix seconds."""

    planned: int
    committed: int | None
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is there.

    Args:
        position: where it is. Batch numbers: they begin with 0.
        note: for a person, over
            several lines.
    """

    position: Position
    note: str = ""
    secret: str = "hidden"

    @property
    def at(self) -> float:
        return 2.0


@derived(Report, without={"position", "secret"})
@derived(Position, at="position")
class Shown(Model):
    """What the API shows."""

    at: float | None
    """its own words"""


REPORT = Report(position=Position(planned=7, committed=None, at=1.5), note="fine")


def test_a_model_has_the_fields_of_its_source_and_their_descriptions() -> None:
    shown = Shown.model_json_schema()["properties"]
    assert {name: field.get("description") for name, field in shown.items()} == {
        "at": "its own words",
        "planned": "ids of batches",
        "committed": "ids of batches",
        "note": "for a person, over several lines",
    }
    assert Shown.__doc__ == "What the API shows."


def test_model_is_built_from_the_instance_and_its_parts() -> None:
    made = Shown.model_validate(REPORT)
    assert made.model_dump() == {"at": 2.0, "planned": 7, "committed": None, "note": "fine"}


def test_no_field_has_a_default_so_that_none_is_forgotten() -> None:
    with pytest.raises(ValidationError, match="note"):
        Shown.model_validate({"position": REPORT.position, "at": 1.0})


def test_a_field_of_a_base_is_described_there() -> None:
    found = field_texts(AssignmentRequest)
    assert found["by"] == "who asked"
    assert found["planned"].startswith("what it would change")


@pytest.mark.parametrize("source", [CheckpointReport, Incident, ExitRecord])
def test_the_words_of_real_docstrings_are_about_their_fields(source: type) -> None:
    found = field_texts(source)
    assert found
    assert set(found) <= {each.name for each in fields(source)}
    assert not [text for text in found.values() if "Args" in text or not text]
