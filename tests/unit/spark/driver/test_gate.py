"""Before its first batch a query is known, and its checkpoint claimed; or it never begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from streamwarden.errors import JobError, LeaseHeld, StoreError
from streamwarden.spark.driver import start_gate as module
from streamwarden.spark.driver.query_registry import Admission, QueryRegistry
from streamwarden.spark.driver.sessions import StartedQuery
from streamwarden.spark.driver.start_gate import StartGate
from streamwarden.spark.internals.listener import QueryProgressed, QueryStarted, QueryTerminated
from streamwarden.stream.spec import StreamSpec, TriggerSpec


@dataclass
class Door:
    """Spark and the store as the gate sees them, each call noted."""

    place: str = "/cp"
    trouble: list[Exception] = field(default_factory=list)
    checkpoints: tuple[str, ...] = ("/cp",)
    stopping: bool = False
    temporary: bool = False
    forbidden: list[str] = field(default_factory=list)
    claimed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    refusals: int = 0

    def started(self, query_id: str, run_id: str) -> StartedQuery:
        return StartedQuery(
            query_id=query_id,
            run_id=run_id,
            given=None,
            checkpoint=self.place,
            trigger=TriggerSpec(),
            temporary=self.temporary,
        )

    def forbid(self, run_id: str) -> None:
        self.forbidden.append(run_id)

    def claim(self, checkpoint: str) -> None:
        if self.trouble:
            raise self.trouble.pop(0)
        self.claimed.append(checkpoint)

    def admitted(self, admission: Admission) -> None:
        self.kept.append(admission.record.identity)

    def refuse(self) -> None:
        self.refusals += 1

    def gate(self, starts: int | None = None) -> tuple[StartGate, QueryRegistry]:
        registry = QueryRegistry(StreamSpec(name="pair", job="/j.py", checkpoint="/cp"), "pair-1", starts=starts)
        both: Any = self  # it is link and sessions
        return StartGate(registry, both, both, refuse=self.refuse, ending=lambda: self.stopping), registry


def test_a_query_on_the_checkpoint_of_the_launchers_claim_begins_whatever_the_store_does() -> None:
    door = Door(trouble=[StoreError("down")])
    gate, _ = door.gate()
    assert gate.lets_pass(QueryStarted("q", "r"))
    assert (door.kept, door.claimed, door.forbidden) == (["pair"], [], [])


def test_a_query_that_is_found_has_its_checkpoint_claimed_first() -> None:
    door = Door(place="/other")
    gate, _ = door.gate(starts=2)
    assert gate.lets_pass(QueryStarted("q", "r"))
    assert (door.claimed, door.kept) == (["/other"], ["pair/other"])


def test_a_checkpoint_of_another_driver_forbids_the_query_and_ends_the_driver() -> None:
    door = Door(place="/other", trouble=[LeaseHeld("driver x has it", next_step="stop it first")])
    gate, registry = door.gate(starts=2)
    assert not gate.lets_pass(QueryStarted("q", "r"))
    assert isinstance(gate.refused, LeaseHeld)
    assert (door.forbidden, door.refusals, door.kept) == (["r"], 1, [])
    assert registry.records() == (), "nothing is kept under its name"


def test_nothing_of_a_refused_query_passes() -> None:
    """Its end would be taken for that of a query which ran, and its id for that of the stream's query."""
    door = Door(place="/elsewhere")
    gate, _ = door.gate(starts=1)
    assert not gate.lets_pass(QueryStarted("q", "r"))
    assert isinstance(gate.refused, JobError)
    assert not gate.lets_pass(QueryTerminated("q", "r", None, None))
    assert gate.lets_pass(QueryTerminated("q2", "r2", None, None))
    assert gate.lets_pass(QueryProgressed("{}"))


def test_a_claim_waits_for_a_store_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.01)
    door = Door(place="/other", trouble=[StoreError("down"), StoreError("down")])
    gate, _ = door.gate(starts=2)
    assert gate.lets_pass(QueryStarted("q", "r"))
    assert door.claimed == ["/other"]


def test_a_store_that_stays_away_forbids_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STORE_PATIENCE", 0.0)
    door = Door(place="/other", trouble=[StoreError("down")] * 5)
    gate, _ = door.gate(starts=2)
    assert not gate.lets_pass(QueryStarted("q", "r"))
    assert isinstance(gate.refused, StoreError)


def test_a_query_that_cannot_be_looked_at_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door()

    def broken(query_id: str, run_id: str) -> StartedQuery:
        raise ZeroDivisionError("no trigger")

    monkeypatch.setattr(door, "started", broken)
    gate, _ = door.gate()
    assert not gate.lets_pass(QueryStarted("q", "r"))
    assert "ZeroDivisionError: no trigger" in str(gate.refused)
    assert not isinstance(gate.refused, JobError), "what is not foreseen is no proof that the job is wrong"
    assert isinstance(gate.refused and gate.refused.__cause__, ZeroDivisionError)


def test_a_jvm_that_goes_down_while_a_query_starts_ends_the_driver_with_that_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door = Door()

    def gone(*_: str) -> StartedQuery:
        raise Py4JNetworkError("Answer from Java side is empty")

    monkeypatch.setattr(door, "started", gone)
    monkeypatch.setattr(door, "forbid", gone)
    gate, _ = door.gate()
    with pytest.raises(Py4JNetworkError):
        gate.lets_pass(QueryStarted("q", "r"))
    assert "Py4JNetworkError" in str(gate.refused)
    assert (door.refusals, door.kept) == (1, [])


def test_a_query_without_a_checkpoint_is_claimed_nowhere() -> None:
    door = Door(place=str(Path("/tmp/temporary-1")), temporary=True)
    gate, _ = door.gate(starts=2)
    assert gate.lets_pass(QueryStarted("q", "r"))
    assert door.claimed == []


def test_while_the_driver_is_stopped_no_query_begins_and_that_is_no_error() -> None:
    door = Door(stopping=True)
    gate, _ = door.gate()
    assert not gate.lets_pass(QueryStarted("q", "r"))
    assert (door.forbidden, door.refusals, gate.refused) == (["r"], 0, None)
