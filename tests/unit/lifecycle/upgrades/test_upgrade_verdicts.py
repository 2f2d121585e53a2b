"""What stands in the way of an upgrade, and when the new version counts as well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.lifecycle.upgrades.changes import FixedSetting, StateChange, What
from streamwarden.lifecycle.upgrades.journal import Seen, Step, Upgrade, judged
from streamwarden.lifecycle.upgrades.preflight import OutputDifference, Preflight, Refused, obstacles, rules_of
from streamwarden.lifecycle.upgrades.report import beside_line
from streamwarden.lifecycle.upgrades.rules import RULES, Outcome

SAME = Preflight(
    stream="s",
    job="j.py",
    batch=9,
    first=8,
    last=9,
    operators=("stateStoreSave",),
    seen=True,
    output=OutputDifference(old=5, new=5),
)
SILENT = StateChange(
    what=What.FIELD_NAME, operator=0, where="op, value", before="sum long", after="max long", silent=True
)
ADDED = StateChange(what=What.FIELD_APPEARS, operator=0, where="op, value", before=None, after="b int")
GONE = StateChange(what=What.OPERATOR_VANISHES, operator=0, where="op", before="op", after=None)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (SAME, []),
        (replace(SAME, state=(ADDED,)), []),
        (replace(SAME, state=(SILENT,)), ["reads the old values as the new ones"]),
        (replace(SAME, state=(GONE,)), ["operator vanishes"]),
        (replace(SAME, settings=(FixedSetting("k", "4", "8"),)), ["k stays 4"]),
        (replace(SAME, watermarks=("the watermark after batch 8 is 1 ms, in place of 2 ms",)), ["the watermark after"]),
        (replace(SAME, output=OutputDifference(old=5, new=4, gone=1)), ["1 row of the old version alone"]),
        (replace(SAME, output=OutputDifference(old=5, new=5, columns=("the column n appears",))), ["the column n"]),
        (replace(SAME, output=OutputDifference(old=5, new=5, unproven="two runs differ")), ["cannot be compared"]),
    ],
)
def test_a_difference_stands_in_the_way_until_it_is_accepted(found: Preflight, expected: list[str]) -> None:
    standing = obstacles(found, accepted=False)
    assert len(standing) == len(expected)
    assert all(text in obstacle.observed for text, obstacle in zip(expected, standing, strict=True))
    assert obstacles(found, accepted=True) == ()


def test_what_differed_once_beside_the_old_version_differs_in_the_end() -> None:
    same = OutputDifference(old=5, new=5, key=("k",))
    other = OutputDifference(
        old=2, new=3, added=1, columns=("the column n appears",), samples={"unexpected": ("r",) * 4}
    )
    found = same.followed_by(other).followed_by(other).followed_by(same)
    assert (found.old, found.new, found.added, found.columns) == (14, 16, 2, other.columns)
    assert (found.key, len(found.samples["unexpected"])) == (("k",), 5)
    assert (found.differs, same.followed_by(same).differs) == (True, False)
    assert (
        beside_line(found, 9, 1)
        == "beside: batch 9, 1 batch behind; 14 rows of the old version and 16 of the new differ"
    )
    unproven = same.followed_by(OutputDifference(old=0, new=0, unproven="purged"))
    assert unproven.differs
    assert beside_line(unproven, 9, 0).endswith("not compared: purged")


def test_what_spark_refuses_is_refused_whatever_is_accepted() -> None:
    refused = Refused(
        batch=8, error_class="STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION", message="no", next_step="undo the change"
    )
    retyped = StateChange(
        what=What.FIELD_TYPE, operator=0, where="op, account, value", before="a int", after="a string"
    )
    found = replace(SAME, refused=refused, state=(retyped,), output=None)
    (standing,) = obstacles(found, accepted=True)
    assert standing.observed == "batch 8: STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION: no"
    assert standing.next_step == "undo the change; give the field a new name, and read the old one while it exists"
    assert {rule.code for rule in rules_of(found)} == {"avro_field_narrowed", "avro_field_retyped"}


def test_each_rule_is_about_something_else_and_says_what_to_do() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES) == len({rule.change for rule in RULES})
    for rule in RULES:
        assert (rule.outcome is Outcome.REFUSED) == (rule.error_class is not None)
        assert rule.what_to_do


UPGRADE = Upgrade(
    id="20261126T000000Z",
    stream="s",
    step=Step.SWAPPED,
    by="ann",
    reason="",
    before="a.py",
    after="b.py",
    watch=60.0,
    savepoint="20261126T000001Z",
    batch=9,
    swapped_at=1_000.0,
)
EARLY, LATE = 1_030.0, 1_061.0


@pytest.mark.parametrize(
    ("seen", "well"),
    [
        (Seen(now=EARLY, started=1_000.0, planned=9, committed=9), None),
        (Seen(now=EARLY, started=1_000.0, planned=12, committed=12), None),
        (Seen(now=LATE, started=1_000.0, planned=12, committed=12), True),
        (Seen(now=LATE, started=1_000.0, planned=9, committed=9), True),  # there is no input
        (Seen(now=LATE, started=1_000.0, planned=10, committed=9), None),  # its first batch has not ended
        (Seen(now=LATE, started=1_000.0, planned=11, committed=10), True),
        (Seen(now=EARLY, started=1_000.0, ended="failed", planned=10, committed=9), False),
        (Seen(now=LATE, started=1_000.0, launches=2, planned=12, committed=12), False),
        (Seen(now=EARLY, started=1_000.0, critical=("batch_duration (slow)",), planned=12, committed=12), False),
        (Seen(now=EARLY, started=1_000.0, completed=True, planned=12, committed=12), True),
        (Seen(now=EARLY, started=1_000.0, stopped=True, planned=9, committed=9), True),
        (Seen(now=EARLY), None),
        (Seen(now=LATE, planned=9, committed=9), None),  # its query has not started
    ],
)
def test_the_new_version_is_judged_by_its_driver_its_batches_and_its_checks(seen: Seen, well: bool | None) -> None:
    verdict = judged(UPGRADE, seen)
    assert (None if verdict is None else verdict.well) is well


def test_the_verdict_says_why() -> None:
    verdict = judged(UPGRADE, Seen(now=LATE, started=1_000.0, planned=12, committed=12))
    assert verdict is not None
    assert verdict.why == "it committed 3 batches"
