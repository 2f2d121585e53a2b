"""Thresholds in YAML, of the project and of one stream. Every mistake is reported with its key."""

from collections.abc import Mapping
from typing import Any

from streamwarden.errors import ConfigError
from streamwarden.health.thresholds import DEFAULTS, Thresholds, validate_overrides
from streamwarden.problems import KeyPath, Problem, show


def overrides(
    raw: object, at: KeyPath, problems: list[Problem], *, base: Thresholds = DEFAULTS
) -> dict[str, dict[str, float]]:
    """The overrides in `raw`, in the units of the thresholds. An unusable one is left out and added to `problems`.

    Args:
        at: key path of `raw` in its file.
        base: the thresholds that are overridden.
    """
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        problems.append(Problem(key=at, observed=show(raw), allowed="a mapping: check -> threshold -> value"))
        return {}
    result: dict[str, dict[str, float]] = {}
    for check, values in raw.items():
        result.update(_of_one(check, values, at, problems, base))
    return result


def _of_one(
    check: str, values: Any, at: KeyPath, problems: list[Problem], base: Thresholds
) -> dict[str, dict[str, float]]:
    """One check's overrides. The validation stops at the first mistake, so that key is removed and the rest retried."""
    rest = dict(values) if isinstance(values, Mapping) else values
    while True:
        try:
            return validate_overrides({check: rest}, where="", base=base)
        except ConfigError as error:
            wrong = error.where.removeprefix(check).removeprefix(".")
            key = (*at, check, wrong) if wrong else (*at, check)
            problems.append(
                Problem(key=key, observed=error.observed, allowed=error.expected, next_step=error.next_step)
            )
            if not isinstance(rest, dict) or wrong not in rest:
                return {}
            del rest[wrong]
