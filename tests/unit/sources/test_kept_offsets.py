"""What a partition keeps, asked while it has no leader."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamwarden.adapters.kafka.brokers import kept_offsets


class Answers:
    """A client whose broker answers in this order; the last answer stays."""

    def __init__(self, *answers: tuple[int, int] | int) -> None:
        self.answers = list(answers)

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        assert timeout > 0
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer


def asked(*answers: tuple[int, int] | int, patience: float = 5.0) -> tuple[int, int]:
    consumer: Any = Answers(*answers)
    return kept_offsets(consumer, "events", 0, deadline=time.monotonic() + patience)


@pytest.mark.parametrize("code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE])
def test_a_partition_between_two_leaders_is_asked_again(code: int) -> None:
    assert asked(code, code, (3, 17)) == (3, 17)


def test_one_that_gets_no_leader_in_time_is_an_error() -> None:
    with pytest.raises(KafkaException):
        asked(KafkaError.NOT_LEADER_FOR_PARTITION, patience=0.2)


def test_other_errors_are_raised_at_once() -> None:
    with pytest.raises(KafkaException):
        asked(KafkaError.TOPIC_AUTHORIZATION_FAILED, (3, 17))
