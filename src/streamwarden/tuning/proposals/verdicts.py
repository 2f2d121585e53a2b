"""Judges what settings cost: the verdicts from which incidents with the status ADVICE come."""

from collections.abc import Iterable, Iterator
from typing import Final

from streamwarden.health.check_relations import ADVICE
from streamwarden.health.verdict import Status, Verdict
from streamwarden.tuning.recommendation import Decision, Recommendation

COSTLY: Final = 20.0
"""Percent that a setting may cost before it is an incident: the input of another day changes the figures by less."""


def check_of(topic: str) -> str:
    """Name of the check that judges a topic of the advice."""
    return ADVICE + topic.replace(" ", "_")


def advice_verdicts(stream: str, advice: Iterable[Recommendation], now: float) -> Iterator[Verdict]:
    """One verdict for each topic: ADVICE if its settings cost more than `COSTLY`, UNKNOWN with too little history.

    The function `costs` of each topic defines what its cost is a percentage of.
    """
    for each in advice:
        unknown = each.status is Decision.UNKNOWN
        costly = each.costs is not None and each.costs > COSTLY and bool(each.settings)
        status = Status.ADVICE if costly else Status.UNKNOWN if unknown else Status.OK
        yield Verdict(
            stream=stream,
            check=check_of(each.topic),
            status=status,
            at=now,
            value=each.costs,
            unit="%",
            reason=f"{each.topic}: it costs {each.costs:.0f} %: {each.says}"
            if costly
            else f"{each.topic}: {each.says}",
            advice=_next_step(stream, each) if costly else "",
            evidence=_evidence(each) if costly else {},
        )


def _next_step(stream: str, advice: Recommendation) -> str:
    settings = ", ".join(f"{key}: {value}" for key, value in advice.settings.items())
    return f"`streamwarden advise {stream} --apply` tries {settings} on a fork, and says what remains to be done"


def _evidence(advice: Recommendation) -> dict[str, object]:
    numbers = {number.name.replace(" ", "_"): number.value for number in advice.numbers}
    return {"cures": advice.cures, **advice.settings, **numbers}
