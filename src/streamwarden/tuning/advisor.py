"""All recommendations for one stream."""

from dataclasses import replace
from typing import Final

from streamwarden.tuning import capacity, checkpoint_interval, memory, partitions, retention, state_size, trigger
from streamwarden.tuning.growth import growth_of
from streamwarden.tuning.history import History
from streamwarden.tuning.recommendation import Decision, Recommendation

_BY_SIZE: Final = (checkpoint_interval.TOPIC, partitions.TOPIC, memory.TOPIC)
"""Topics whose advice depends on the size of the state."""


def advise(history: History) -> tuple[Recommendation, ...]:
    """One recommendation a topic. Where there is too little data, it gives the reason."""
    topics = (state_size, checkpoint_interval, partitions, memory, trigger, capacity, retention)
    growth = growth_of(history)
    recommendations = (replace(topic.advise(history), cures=topic.CURES) for topic in topics)
    return tuple(
        _for_now(recommendation) if growth is not None and growth.endless else recommendation
        for recommendation in recommendations
    )


def _for_now(recommendation: Recommendation) -> Recommendation:
    """A setting that is kept in view of a state that only grows is right for its present size alone."""
    if recommendation.topic not in _BY_SIZE or recommendation.status is not Decision.KEEP:
        return recommendation
    says = f"{recommendation.says} This holds for the present size of the state, which only grows."
    return replace(recommendation, says=says)
