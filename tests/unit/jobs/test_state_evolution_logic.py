"""Both versions of an account without Spark: random purchases, an upgrade somewhere among them, against the oracle."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from streamwarden.errors import ConfigError
from streamwarden.services.verifying.oracle_files import load_oracle
from streamwarden.verification.oracle import Expectation, RunFacts
from streamwarden.verification.reconciliation import Reconciliation
from support.oracles.reconciling import reconcile
from support.oracles.ticking import JOBS, Ticking, job_module

pytestmark = pytest.mark.usefixtures("one_database")

JOB = job_module("state_evolution")
ORACLE = load_oracle(JOBS / "state_evolution.py")
CUSTOMERS = ("ann", "ben", "größe")
VALUES = ("spent", "refunds", "largest", "version", "added")
STATE_1 = frozenset({"account.entries", "account.points", "account.refunds"})
STATE_2 = frozenset({"account.entries", "account.points", "account.spent", "account.largest"})
BATCH = st.lists(st.tuples(st.sampled_from(CUSTOMERS), st.integers(-2_000, 9_000)), max_size=8)
BATCHES = st.lists(BATCH, min_size=1, max_size=8)


class Run(NamedTuple):
    """What a history came to."""

    out: list[Any]
    batches: list[list[tuple[str, int]]]
    state: dict[Any, Any]
    facts: RunFacts


def by_name(names: str, value: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip((field.split()[0] for field in names.split(", ")), value, strict=True))


def upgraded(state: dict[Any, Any]) -> dict[Any, Any]:
    """Rows of version 1 as Spark gives them to version 2: fields by their names, null where there is none."""
    names = [field.split()[0] for field in JOB.STATE[2].split(", ")]
    return {key: tuple(by_name(JOB.STATE[1], value).get(name) for name in names) for key, value in state.items()}


def run(batches: list[list[tuple[str, int]]], upgrade: int) -> Run:
    """Version 1 until the batch `upgrade`, then version 2 on its state."""
    ticking = Ticking(JOB.Accounts(1))
    out: list[Any] = []
    for number, entries in enumerate(batches):
        if number == upgrade:
            kept = upgraded(ticking.state()["account"])
            ticking = Ticking(JOB.Accounts(2))
            ticking.restore("account", kept)
        rows: dict[str, list[Row]] = {}
        for customer, amount in entries:
            rows.setdefault(customer, []).append(Row(amount=amount))
        out += ticking.batch(number + 1, rows)
    facts = RunFacts(
        files={number: [Path(f"{number}.json")] for number in range(len(batches))},
        watermarks=dict.fromkeys(range(len(batches)), 0),
        committed=len(batches) - 1,
        state={0: STATE_1, **({upgrade: STATE_2} if upgrade < len(batches) else {})},
    )
    return Run(out, batches, ticking.state()["account"], facts)


def expectation(made: Run) -> Expectation:
    with tempfile.TemporaryDirectory() as folder:
        for number, entries in enumerate(made.batches):
            lines = [json.dumps({"customer": customer, "amount": amount}) for customer, amount in entries]
            Path(folder, f"{number}.json").write_text("\n".join(["not json", *lines, '{"customer":"ann"}']))
        return ORACLE(sorted(Path(folder).iterdir()), made.facts)


def judged(made: Run, out: list[Any] | None = None) -> Reconciliation:
    wanted = expectation(made)
    rows = made.out if out is None else out
    actual = [((row.customer, row.entries), tuple(row[name] for name in VALUES)) for row in rows]
    return reconcile(wanted.rows, actual, problems=wanted.problems)


def counters(outcome: Reconciliation) -> tuple[int, int, int, int]:
    return outcome.lost, outcome.duplicated, outcome.unexpected, outcome.wrong


@given(BATCHES, st.integers(0, 9))
def test_job_agrees_with_the_oracle_wherever_the_upgrade_is(batches: list[list[tuple[str, int]]], upgrade: int) -> None:
    made = run(batches, upgrade)
    outcome = judged(made)
    assert counters(outcome) == (0, 0, 0, 0), outcome.to_dict()
    counts = expectation(made).counts
    assert counts.emitted == sum(row.added for row in made.out) == sum(map(len, batches))
    assert counts.malformed == 2 * len(batches)


@given(BATCHES, st.integers(0, 9))
def test_no_cent_and_no_entry_is_lost_in_the_upgrade(batches: list[list[tuple[str, int]]], upgrade: int) -> None:
    """The ledger, whatever the form of the state: also of customers that version 2 has not touched yet."""
    made = run(batches, upgrade)
    for customer in CUSTOMERS:
        amounts = [amount for entries in batches for name, amount in entries if name == customer]
        value = made.state.get(customer)
        if value is None:
            assert not amounts
        elif upgrade < len(batches):
            account = JOB.Account2(*value).migrated()
            assert (account.entries, account.spent, account.points) == (len(amounts), sum(amounts), None)
        else:
            assert value == (len(amounts), sum(amounts), sum(amount < 0 for amount in amounts))


@given(st.lists(st.integers(-2_000, 9_000), min_size=1))
def test_the_order_within_a_batch_does_not_matter(amounts: list[int]) -> None:
    for account in (JOB.Account1(3, 500, 1), JOB.Account2(3, 500, None, None), JOB.Account2(3, None, 500, 70)):
        assert account.booked(amounts) == account.booked(amounts[::-1])


def test_an_account_is_migrated_once() -> None:
    old = JOB.Account2(entries=3, points=500)
    assert old.migrated() == JOB.Account2(3, None, 500, None)
    assert old.migrated().migrated() == old.migrated()
    assert JOB.Account2(3, None, 0).migrated().spent == 0


def test_a_new_customer_of_version_2_begins_at_nothing() -> None:
    assert JOB.Account2().booked([250, -100]) == JOB.Account2(2, None, 150, 250)
    assert JOB.Account2().booked([-100]).largest is None


def test_the_version_is_one_that_there_is() -> None:
    assert (JOB.version(()), JOB.version(("version=1",)), JOB.version(("version=2",))) == (2, 1, 2)
    for arg in ("version=3", "version=", "1", "version=01", "other=1"):
        with pytest.raises(ConfigError, match="args: "):
            JOB.version((arg,))


# What the oracle must condemn


@pytest.fixture(scope="module")
def history() -> Run:
    return run([[("ann", 500), ("ann", -20), ("ben", 10)], [("ann", 90)], [("ann", 40), ("ben", 7)]], upgrade=2)


def changed(row: Any, **changes: Any) -> Row:
    return Row(**{**row.asDict(), **changes})


def test_the_right_output_is_right(history: Run) -> None:
    assert judged(history).exactly_once
    assert [(row.version, row.spent, row.refunds, row.largest) for row in history.out if row.customer == "ann"] == [
        (1, 480, 1, None),
        (1, 570, 1, None),
        (2, 610, None, 40),
    ]


def test_an_upgrade_that_forgot_the_old_name_is_caught(history: Run) -> None:
    """The sum begins at nothing: what a renaming without a migration does."""
    forgetful = [changed(row, spent=40) if (row.customer, row.version) == ("ann", 2) else row for row in history.out]
    assert counters(judged(history, forgetful)) == (0, 0, 0, 1)


def test_a_lost_a_doubled_and_a_foreign_row_are_caught(history: Run) -> None:
    first, *others = history.out
    assert counters(judged(history, others)) == (1, 0, 0, 0)
    assert counters(judged(history, [first, first, *others])) == (0, 1, 0, 0)
    assert counters(judged(history, [first, *others, changed(first, entries=99)])) == (0, 0, 1, 0)


def test_a_row_of_the_wrong_version_is_caught(history: Run) -> None:
    early = history._replace(facts=replace(history.facts, state={0: STATE_1, 1: STATE_2}))
    assert counters(judged(early))[3] > 0


def test_fork_owes_only_rows_emitted_after_its_start(history: Run) -> None:
    later = expectation(history._replace(facts=replace(history.facts, first=2)))
    assert sorted(later.rows) == [("ann", 4), ("ben", 2)]
    assert (later.counts.emitted_before, later.counts.emitted) == (4, 2)
