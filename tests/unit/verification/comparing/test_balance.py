"""The law of an audit, on books that a small model of a windowed aggregation writes."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.verification.comparing.balance import (
    Audit,
    Entry,
    Outcome,
    Range,
    audited_range,
    differences,
    writing_batch,
)

LENGTH = 10
DELAY = 5
Group = tuple[int, str]
"""(end of the window, key)"""


@dataclass
class Model:
    """An aggregation as Spark runs it: per batch the state and the output after it, and the rows that were late."""

    rows: list[list[tuple[int, str, int]]]
    marks: list[int] = field(default_factory=list)
    states: list[dict[Group, tuple[int, int]]] = field(default_factory=list)
    outputs: list[dict[Group, tuple[int, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        state: dict[Group, tuple[int, int]] = {}
        mark = newest = 0
        for batch in self.rows:
            late = self.marks[-1] if self.marks else 0
            mark = max(mark, newest - DELAY)
            for at, key, value in batch:
                group = ((at // LENGTH + 1) * LENGTH, key)
                if group[0] > late:
                    count, total = state.get(group, (0, 0))
                    state[group] = count + 1, total + value
                newest = max(newest, at)
            self.marks.append(mark)
            self.outputs.append({group: value for group, value in state.items() if group[0] <= mark})
            state = {group: value for group, value in state.items() if group[0] > mark}
            self.states.append(dict(state))

    def books(self, after: int, upto: int) -> dict[Group, dict[str, dict[str, int]]]:
        """The four sides for each group, the input by the law of the audit and not by the model's own."""
        books: dict[Group, dict[str, dict[str, int]]] = defaultdict(dict)

        def add(side: str, groups: Mapping[Group, tuple[int, int]]) -> None:
            for group, (count, total) in groups.items():
                known = books[group].setdefault(side, {"groups": 0, "rows": 0, "total": 0})
                known["groups"] += 1
                known["rows"] += count
                known["total"] += total

        read: Counter[Group] = Counter()
        totals: Counter[Group] = Counter()
        for batch in range(after + 1, upto + 1):
            for at, key, value in self.rows[batch]:
                group = ((at // LENGTH + 1) * LENGTH, key)
                if group[0] > (self.marks[batch - 1] if batch else 0):
                    read[group] += 1
                    totals[group] += value
            add("output", self.outputs[batch])
        add("input", {group: (count, totals[group]) for group, count in read.items()})
        add("closing", self.states[upto])
        if after >= 0:
            add("opening", self.states[after])
        return books


ROWS = st.lists(
    st.lists(st.tuples(st.integers(0, 80), st.sampled_from("ab"), st.integers(-3, 3)), max_size=8),
    min_size=1,
    max_size=8,
)


@given(rows=ROWS, data=st.data())
def test_every_range_of_a_right_run_balances(rows: list[list[tuple[int, str, int]]], data: st.DataObject) -> None:
    model = Model(rows)
    upto = data.draw(st.integers(0, len(rows) - 1))
    after = data.draw(st.integers(-1, upto - 1))
    assert not [group for group, sides in model.books(after, upto).items() if differences(sides)]


@given(rows=ROWS, data=st.data())
def test_any_single_change_of_the_output_or_the_state_does_not_balance(
    rows: list[list[tuple[int, str, int]]], data: st.DataObject
) -> None:
    model = Model(rows)
    books = model.books(-1, len(rows) - 1)
    there = [(group, side) for group, sides in books.items() for side in ("output", "closing") if side in sides]
    if not there:
        return
    group, side = data.draw(st.sampled_from(there))
    change = data.draw(st.sampled_from(["drop", "double", "alter"]))
    amounts = books[group][side]
    if change == "drop":
        del books[group][side]
    elif change == "double":
        amounts |= {name: 2 * value for name, value in amounts.items()}
    else:
        amounts["total"] += 1
    assert [each for each, sides in books.items() if differences(sides)] == [group]


def sides(**amounts: int | float) -> dict[str, dict[str, int | float]]:
    return {side: {"n": value} for side, value in amounts.items()}


def test_sums_of_floating_numbers_may_differ_by_the_order_of_their_addition() -> None:
    assert not differences(sides(input=0.1 + 0.2, output=0.3))
    assert differences(sides(input=0.1 + 0.2, output=0.30001))
    assert differences(sides(input=3, output=2)) == {"n": 1}


def test_the_tolerance_of_a_sum_near_zero_is_that_of_its_addends() -> None:
    near = sides(input=7.8e-16, output=0.0)
    assert differences(near)
    assert not differences(near, {"n": 1e-9 * 480.0})
    assert differences(sides(input=1e-3, output=0.0), {"n": 1e-9 * 480.0})
    assert differences(sides(input=math.inf, output=5.0), {"n": math.inf})


def test_a_sum_that_is_null_is_not_zero() -> None:
    entry = Entry(
        key={"k": "a"}, sides={"input": {"groups": 1, "n": 0}, "output": {"groups": 1, "n": None}, "closing": {}}
    )
    assert entry.differences == {"n": 0}
    assert str(entry) == "k a: n is NULL instead of 0"
    other = replace(entry, sides={"input": entry.sides["output"], "output": entry.sides["input"]})
    assert str(other) == "k a: n is 0 instead of NULL"
    assert not replace(entry, sides={"input": {"groups": 1, "n": 0}}, exclusive=False).differences


def test_the_sentence_says_what_was_not_compared() -> None:
    found = Audit(
        stream="s", range=Range(after=-1, upto=9), entries=9, unsure=2, left_out={"mean": "not a sum"}, totals={}
    )
    assert found.sentence.endswith("; not compared: mean (not a sum), 2 of 9 groups")
    noted = replace(found, problems=("a file was cut",), notes=("a batch read it twice",))
    assert "over batches 0 to 9: a file was cut; a batch read it twice; not compared: mean" in noted.sentence
    assert replace(found, unbalanced=0, unsure=9).outcome is Outcome.UNDECIDED


def test_a_group_that_is_in_the_output_and_in_the_state_does_not_balance() -> None:
    both = {"input": {"groups": 1, "n": 0}, "output": {"groups": 1, "n": 0}, "closing": {"groups": 1, "n": 0}}
    assert differences(both) == {"groups": -1}
    assert not differences(both, exclusive=False)


@pytest.mark.parametrize(
    ("offsets", "commits", "last", "margin", "expected"),
    [
        (range(0), range(0), None, 0, None),
        (range(1), range(0), None, 0, None),
        (range(12), range(11), None, 0, Range(after=-1, upto=10)),
        (range(12), range(11), None, 5, Range(after=-1, upto=10)),  # nothing is purged before it
        (range(100, 202), range(100, 201), None, 0, Range(after=100, upto=200)),
        (range(100, 202), range(100, 201), None, 50, Range(after=150, upto=200)),
        (range(100, 202), range(100, 201), None, 100, None),
        (range(12), range(11), 4, 0, Range(after=6, upto=10)),
        (range(100, 202), range(100, 201), 90, 50, Range(after=150, upto=200)),
        (range(100, 202), range(100, 201), 20, 50, Range(after=180, upto=200)),
        (range(9, 11), range(9, 11), None, 0, Range(after=9, upto=10)),
        (range(10, 11), range(10, 11), None, 0, None),
        ([3, 4, 9, 10], [3, 4, 9, 10], None, 0, Range(after=9, upto=10)),
    ],
)
def test_audit_covers_the_kept_batches(
    offsets: range, commits: range, last: int | None, margin: int, expected: Range | None
) -> None:
    assert audited_range(offsets, commits, last, margin=margin) == expected


@pytest.mark.parametrize(("kept", "expected"), [(range(104, 201), Range(after=104, upto=200)), (range(200, 201), None)])
def test_it_begins_with_the_first_batch_whose_state_is_kept(kept: range, expected: Range | None) -> None:
    assert audited_range(range(100, 202), range(100, 201), usable=kept.__contains__) == expected


def test_the_batch_that_has_to_write_a_window_is_the_first_whose_watermark_passed_its_end() -> None:
    marks = {4: 0, 5: 10, 6: 20, 7: 20, 8: 30}
    assert writing_batch(20, marks, range(5, 9)) == 6
    assert writing_batch(31, marks, range(5, 9)) is None
    assert writing_batch(None, marks, range(5, 9)) is None


def test_sentence_names_the_group_its_batch_and_the_missing_amount() -> None:
    entry = Entry(
        key={"carrier": "AA"},
        sides={"input": {"groups": 1, "n": 3}, "output": {"groups": 0, "n": None}},
        batch=7,
    )
    found = Audit(stream="s", range=Range(after=-1, upto=9), entries=2, unbalanced=1, worst=[entry], amounts=["n"])
    assert found.outcome is Outcome.UNBALANCED
    assert found.batches == [7]
    assert found.sentence == (
        "the books of s do not balance over batches 0 to 9: 1 of 2 groups do not balance; "
        "carrier AA (batch 7): n -3, the group is missing"
    )


def test_where_no_watermark_decides_it_the_batches_that_read_the_rows_are_named() -> None:
    entry = Entry(key={"id": "a"}, sides={"input": {"n": 3}}, read_by=Range(after=4, upto=6))
    found = Audit(stream="s", range=Range(after=-1, upto=9), entries=2, unbalanced=1, worst=[entry], amounts=["n"])
    assert found.batches == [5, 6]
    assert found.to_dict()["worst"][0]["read_by"] == [5, 6]
    assert "id a (read by batches 5 to 6): n -3" in found.sentence


def test_a_stream_that_cannot_be_balanced_is_never_balanced() -> None:
    found = Audit(stream="s", range=Range(after=-1, upto=9), impossible="of its operator")
    assert found.outcome is Outcome.UNDECIDED
    assert "cannot balance" in found.sentence
    assert Audit(stream="s", range=None, impossible="x", problems=("a gap",)).outcome is Outcome.UNBALANCED


def test_the_equation_of_the_totals() -> None:
    found = Audit(
        stream="s",
        range=Range(after=3, upto=9),
        amounts=["n", "sum"],
        counts="n",
        totals={
            "opening": {"n": 2},
            "input": {"n": 1_000},
            "dropped": {"n": None},
            "output": {"n": 900},
            "closing": {"n": 102},
        },
    )
    assert found.outcome is Outcome.BALANCED
    assert found.equation == (
        "2 in the state before + 1,000 rows in = 900 in the output + 102 in the state; 0 dropped as late"
    )
