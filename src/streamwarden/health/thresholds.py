"""Thresholds: the checks' defaults, `config/thresholds.yaml` on top, and a stream's own on top of that."""

from collections.abc import Mapping
from typing import Final

from streamwarden.errors import ConfigError
from streamwarden.health.check import Check, Thresholds
from streamwarden.health.checks import CHECKS

__all__ = ["DEFAULTS", "Thresholds", "thresholds_from", "validate_overrides"]

_BY_NAME: Final = {check.name: check for check in CHECKS}

DEFAULTS: Final = Thresholds(
    {check.name: {threshold.name: threshold.default for threshold in check.thresholds} for check in CHECKS}
)


def thresholds_from(raw: Mapping[str, object] | None, *, where: str) -> Thresholds:
    """The thresholds of a parsed `config/thresholds.yaml`; what it leaves out keeps its default. Raises ConfigError."""
    return DEFAULTS.with_overrides(validate_overrides(raw, where=where))


def validate_overrides(
    raw: Mapping[str, object] | None, *, where: str, base: Thresholds = DEFAULTS
) -> dict[str, dict[str, float]]:
    """Overrides as written (`{state_size: {warning: 1 GB}}`) in the thresholds' units: bytes, seconds, numbers.

    Args:
        raw: check name -> threshold name -> number or text with a unit; None means no override.
        where: file and key of the mapping, for the message.
        base: the thresholds that are overridden: `warning` and `critical` must agree also when only one is given.

    Raises:
        ConfigError: an unknown check or threshold, a value of the wrong kind, or limits in the wrong order.
    """
    checked: dict[str, dict[str, float]] = {}
    for name, values in _mapping(raw, where, "check name -> thresholds").items():
        here = f"{where}.{name}" if where else str(name)
        check = _BY_NAME.get(name)
        if check is None:
            raise ConfigError(
                f"there is no check {name!r}",
                expected=f"one of {', '.join(sorted(_BY_NAME))}",
                where=here,
                next_step="correct the name of the check",
            )
        checked[name] = _thresholds(check, _mapping(values, here, "threshold name -> value"), here)
        _in_order(check, {**base.of(name), **checked[name]}, here)
    return checked


def _mapping(raw: object, where: str, expected: str) -> Mapping[str, object]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise ConfigError(
            f"{raw!r} is not a mapping", expected=expected, where=where, next_step="write it as key: value"
        )
    return raw


def _thresholds(check: Check, values: Mapping[str, object], where: str) -> dict[str, float]:
    by_name = {threshold.name: threshold for threshold in check.thresholds}
    parsed: dict[str, float] = {}
    for name, value in values.items():
        here = f"{where}.{name}"
        if name not in by_name:
            raise ConfigError(
                f"the check {check.name} has no threshold {name!r}",
                expected=f"one of {', '.join(by_name)}",
                where=here,
                next_step="correct the name of the threshold",
            )
        try:
            if not isinstance(value, str | int | float):
                raise ValueError(f"{value!r} is neither a number nor a text with a unit")
            parsed[name] = by_name[name].unit.parse(value)
        except ValueError as error:
            raise ConfigError(
                str(error),
                expected=f"{by_name[name].meaning}, in {by_name[name].unit}",
                where=here,
                next_step="correct the value",
            ) from error
    return parsed


def _in_order(check: Check, values: Mapping[str, float], where: str) -> None:
    warning, critical = values["warning"], values["critical"]
    if (warning > critical) if check.more_is_worse else (warning < critical):
        side = "at most" if check.more_is_worse else "at least"
        unit = next(threshold.unit for threshold in check.thresholds if threshold.name == "warning")
        raise ConfigError(
            f"warning {unit.show_limit(warning)} and critical {unit.show_limit(critical)} are in the wrong order",
            expected=f"warning {side} critical",
            where=where,
            next_step="set both limits",
        )
