"""The oracle of `state_evolution`: running sums over the whole history of each customer, across the versions.

Written from the question, not from the job, and shares no code with it: no state, and nothing that changes its form.
Which batches each version ran is in the checkpoint: the first of them wrote the schema of its state.

The question: after each batch with entries (purchases and refunds) of a customer: how many have there been, how much is
their sum, and how many are of this batch? Of a batch that version 1 ran also how many were refunds; of one that version
2 ran the largest purchase since it began, if there was one. A line that is not a valid entry is left out: not a JSON
object, a field of another type, or no customer or amount.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from streamwarden.verification.batches import replay_input
from streamwarden.verification.lines import fields, integer, text
from streamwarden.verification.oracle import Expectation, RowCounts, RunFacts
from streamwarden.verification.reconciliation import Key, Values


class Entry(NamedTuple):
    """A line of the input."""

    customer: str
    amount: int


def decode(line: str) -> Entry | None:
    """An entry; None if the line is not one."""
    found = fields(line, {"customer": text, "amount": integer})
    if found is None or found["customer"] is None or not isinstance(amount := found["amount"], int):
        return None
    return Entry(str(found["customer"]), amount)


_TYPES: Final = {
    "customer": "STRING",
    "entries": "BIGINT",
    "spent": "BIGINT",
    "refunds": "BIGINT",
    "largest": "INT",
    "version": "INT",
    "added": "BIGINT",
}
"""The whole set of columns of the output."""


def expected(inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output of a run of `state_evolution` over `inputs`."""
    run = replay_input(inputs, facts, decode=decode, at=lambda _: 0, delay=None)
    upgrade = min((batch for batch, names in facts.state.items() if "account.largest" in names), default=None)
    rows: dict[Key, Values] = {}
    emitted = before = 0
    history: dict[str, list[tuple[bool, int]]] = defaultdict(list)  # of each customer: since the upgrade?, amount
    for step in run.steps():
        if step.batch > run.committed:
            break
        upgraded = upgrade is not None and step.batch >= upgrade
        added: dict[str, int] = defaultdict(int)
        for entry in step.rows:
            history[entry.customer].append((upgraded, entry.amount))
            added[entry.customer] += 1
        if step.batch < facts.first:
            before += len(step.rows)
            continue
        emitted += len(step.rows)
        for customer, count in added.items():
            amounts = [amount for _, amount in history[customer]]
            bought = [amount for new, amount in history[customer] if new and amount > 0]
            rows[customer, len(amounts)] = (
                sum(amounts),
                None if upgraded else sum(amount < 0 for amount in amounts),
                max(bought, default=None) if upgraded else None,
                2 if upgraded else 1,
                count,
            )
    return Expectation(
        key_columns=("customer", "entries"),
        value_columns=("spent", "refunds", "largest", "version", "added"),
        types=_TYPES,
        complete=True,
        rows=rows,
        counts=RowCounts(
            records=run.records,
            malformed=run.malformed,
            pairs=emitted + before,
            dropped=0,
            emitted=emitted,
            emitted_before=before,
            open=0,  # an entry comes out in its own batch
        ),
        count_column="added",
        problems=run.problems,
        notes={"batches": len(facts.watermarks), "input_files": len(inputs), "upgraded_at_batch": upgrade},
    )
