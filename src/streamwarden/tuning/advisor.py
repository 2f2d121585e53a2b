"""All recommendations for one stream."""

from __future__ import annotations

from streamwarden.tuning import capacity, checkpoint_interval, memory, partitions, state_size, trigger
from streamwarden.tuning.history import History
from streamwarden.tuning.recommendation import Recommendation


def advise(history: History) -> tuple[Recommendation, ...]:
    """One recommendation a topic. Where there is too little data, it gives the reason."""
    topics = (state_size, checkpoint_interval, partitions, memory, trigger, capacity)
    return tuple(topic.advise(history) for topic in topics)
