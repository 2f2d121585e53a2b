"""Check that a topic's name is one that Kafka allows."""

import re
from collections.abc import Iterator
from typing import Final

from streamwarden.problems import Problem, show

TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def topic_problems(side: str, topic: str) -> Iterator[Problem]:
    """`topic` of `source` or `sink` is a name that Kafka allows."""
    if not TOPIC.fullmatch(topic):
        allowed = f"a topic's name that matches {TOPIC.pattern}"
        yield Problem(key=(side, "topic"), observed=show(topic), allowed=allowed)
