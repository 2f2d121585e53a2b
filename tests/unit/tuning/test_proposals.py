"""What advice changes of a stream's file, whether a trial of it is a gain, and which settings are an incident."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.health.verdict import Status
from streamwarden.lifecycle.settings import DELTAS
from streamwarden.lifecycle.upgrades.preflight import OutputDifference
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.tuning.proposals.changes import How, changes_of, key_of, tried, values_of, without_trigger
from streamwarden.tuning.proposals.trial import (
    FEWEST,
    Execution,
    Pair,
    Trial,
    batches_a_trigger,
    groups,
    how_many,
    judge,
    largest_size,
)
from streamwarden.tuning.proposals.verdicts import COSTLY, advice_verdicts, check_of
from streamwarden.tuning.recommendation import Decision, Recommendation
from support.streams.health_windows import spec

SAME = OutputDifference(old=100, new=100)


def advice(topic: str = "trigger", costs: float | None = 30.0, **settings: str) -> Recommendation:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return Recommendation(
        topic=topic, status=Decision.CHANGE, says="too short.", settings=named, costs=costs, cures="backlog"
    )


def changes(of: StreamSpec, *given: Recommendation) -> dict[str, How]:
    return {change.setting: change.how for change in changes_of(of, given, lambda key: None)}


# The changes


def test_each_setting_is_changed_by_whoever_can_see_what_it_does() -> None:
    given = (
        advice(trigger__processing_time="4 seconds"),
        advice("partitions", state__shuffle_partitions="4"),
        replace(advice("checkpoint interval"), settings={DELTAS: "2"}),
        advice("memory", spark__driver_memory="2 GB", spark__executors__memory="1 GB"),
        advice("retention", sink__options__retention="30 days"),
    )
    assert changes(spec(), *given) == {
        "trigger.processing_time": How.TRIAL,
        "state.shuffle_partitions": How.REPARTITION,
        f"spark.conf.{DELTAS}": How.TRIAL,
        "spark.driver_memory": How.TRIAL,
        "spark.executors.memory": How.PERSON,
        "sink.options.retention": How.PERSON,
    }


def test_partitions_are_never_written_into_the_file_and_the_command_is_named() -> None:
    """The checkpoint keeps its number: the file alone would claim another one than is in force."""
    (change,) = changes_of(spec(), [advice("partitions", state__shuffle_partitions="8")], lambda key: "200")
    assert values_of(tried([change])) == {}
    assert "repartition orders --partitions 8" in change.next_step.replace(spec().name, "orders")


def test_a_trigger_is_tried_in_append_mode_alone() -> None:
    of = spec()
    updating = replace(of, sink=replace(of.sink, mode=OutputMode.UPDATE))
    assert changes(updating, advice(trigger__processing_time="4 seconds")) == {"trigger.processing_time": How.PERSON}


def test_what_the_file_says_already_is_no_change() -> None:
    assert changes_of(spec(), [advice(trigger__processing_time="4 seconds")], lambda key: "4 seconds") == ()


def test_a_trigger_that_a_limit_of_the_source_undoes_is_left_to_a_person() -> None:
    given = changes_of(spec(), [advice(trigger__processing_time="4 seconds")], lambda key: None)
    (left,) = without_trigger(given, "a batch reads at most 1 file")
    assert (left.how, left.next_step) == (
        How.PERSON,
        "set trigger.processing_time: 4 seconds by hand: a batch reads at most 1 file",
    )
    assert tried([left]) == ()


def test_settings_of_spark_are_below_its_conf() -> None:
    assert key_of(DELTAS) == ("spark", "conf", DELTAS)
    assert key_of("trigger.processing_time") == ("trigger", "processing_time")


# The batches of a trial


@pytest.mark.parametrize(("period", "trigger", "size"), [(2.0, 4.0, 2), (3.0, 5.0, 2), (1.0, 10.0, 10), (5.0, 6.0, 2)])
def test_a_longer_trigger_makes_one_batch_of_several(period: float, trigger: float, size: int) -> None:
    assert batches_a_trigger(period, trigger) == size


def test_the_newest_batch_stays_alone_so_that_both_end_with_its_watermark() -> None:
    assert groups(range(10, 16), 2) == {10: (10, 11), 11: (12, 13), 12: (14, 14), 13: (15, 15)}
    assert groups([7], 3) == {7: (7, 7)}
    assert groups([7, 8], 1) == {7: (7, 7), 8: (8, 8)}


@pytest.mark.parametrize(
    ("counts", "limit", "size"),
    [([1, 1, 1, 1], None, 3), ([1, 1, 1, 1], 3, 3), ([1, 1, 1, 1], 2, 2), ([16, 3, 16], 16, 1), ([2, 1, 9], 9, 1)],
)
def test_no_batch_of_a_trial_has_more_input_than_the_source_allows(
    counts: list[int], limit: int | None, size: int
) -> None:
    assert largest_size(counts, 3, limit) == size


def test_a_trial_takes_the_last_hour_within_bounds() -> None:
    each_minute = [(10_000.0 - 60 * number, 100) for number in range(100)]
    assert how_many(each_minute, 1) == 20
    assert how_many(each_minute, 5) == 50
    assert how_many(each_minute, 50) == 60
    assert how_many([(10_000.0 - 600 * number, 100) for number in range(100)], 1) == 7
    assert how_many([(10_000.0 - number, 1_500_000) for number in range(100)], 1) == 2
    assert how_many([], 1) == 1


# The judgement


def execution(seconds: float, state: int = 1000) -> Execution:
    return Execution(seconds=seconds, longest=seconds, state=state, rows=100)


def trial(*pairs: tuple[float, float], output: OutputDifference = SAME, **more: object) -> Trial:
    made = tuple(
        Pair((number, number), execution(before), execution(after)) for number, (before, after) in enumerate(pairs)
    )
    return Trial(pairs=made, output=output, **more)  # type: ignore[arg-type]


def test_shorter_batches_with_the_same_output_are_a_gain() -> None:
    verdict = judge(trial(*[(2.0, 1.0)] * 6))
    assert verdict.gain
    assert "50% less time" in verdict.why


@pytest.mark.parametrize(
    "pairs",
    [
        [(1.0, 1.0)] * 8,
        [(1.0, 0.97)] * 8,
        [(1.0, 0.8), (1.0, 1.1)] * 4,
        [(1.0, 1.5)] * 8,
        [(2.0, 1.0)] * (FEWEST - 1),
    ],
    ids=["the same", "within the noise", "not in most pairs", "slower", "too few"],
)
def test_anything_else_is_no_gain(pairs: list[tuple[float, float]]) -> None:
    """Negative control."""
    assert not judge(trial(*pairs)).gain


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (OutputDifference(old=100, new=99, gone=1), "1 row of the present settings alone"),
        (OutputDifference(old=100, new=100, changed=2), "2 rows with other values"),
        (OutputDifference(old=0, new=0, unproven="the manifest is gone"), "cannot be compared: the manifest is gone"),
    ],
)
def test_another_output_refuses_the_settings_however_fast_they_are(output: OutputDifference, said: str) -> None:
    verdict = judge(trial(*[(2.0, 1.0)] * 6, output=output))
    assert (verdict.gain, verdict.refused) == (False, True)
    assert said in verdict.why


def test_batches_that_wrote_nothing_prove_nothing() -> None:
    verdict = judge(trial(*[(2.0, 1.0)] * 6, output=OutputDifference(old=0, new=0)))
    assert (verdict.gain, verdict.refused) == (False, False)
    assert "wrote no row" in verdict.why


@pytest.mark.parametrize(("heaps", "gain"), [((3000, 5000), True), ((3000, 3500), False), ((9000, 9500), False)])
def test_room_for_the_state_on_the_heap_is_a_gain_if_batches_are_not_slower(heaps: tuple[int, int], gain: bool) -> None:
    assert judge(trial(*[(1.0, 1.0)] * 6, heaps=heaps)).gain is gain
    assert not judge(trial(*[(1.0, 1.5)] * 6, heaps=heaps)).gain


# The incidents


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (advice(costs=COSTLY + 1, a="b"), Status.ADVICE),
        (advice(costs=COSTLY, a="b"), Status.OK),
        (advice(costs=None, a="b"), Status.OK),
        (advice(costs=50.0), Status.OK),
        (replace(advice(costs=None), status=Decision.UNKNOWN), Status.UNKNOWN),
    ],
    ids=["costly", "at the limit", "not known", "nothing to set", "too little history"],
)
def test_only_a_setting_that_costs_much_is_an_incident(given: Recommendation, status: Status) -> None:
    (verdict,) = advice_verdicts("orders", [given], 10.0)
    assert (verdict.check, verdict.status) == ("advice_trigger", status)
    assert bool(verdict.advice) is (status is Status.ADVICE)
    assert verdict.evidence.get("cures") == ("backlog" if status is Status.ADVICE else None)


def test_the_check_of_a_topic_is_one_word() -> None:
    assert check_of("checkpoint interval") == "advice_checkpoint_interval"
