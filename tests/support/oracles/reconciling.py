"""Reconciles small outputs that a test writes down as keys and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streamwarden.services.verifying.outputs import reconcile_outputs
from streamwarden.sinks.output import Output
from streamwarden.verification.reconciliation import Key, Reconciliation, Values
from streamwarden.verification.tolerance import Tolerance


def reconcile(
    expected: Mapping[Key, Values],
    actual: Sequence[tuple[Key, Values]],
    *,
    key_columns: Sequence[str] = (),
    value_columns: Sequence[str] = (),
    problems: Iterable[str] = (),
    notes: Mapping[str, object] | None = None,
    tolerances: Mapping[str, Tolerance] | None = None,
    **more: Any,
) -> Reconciliation:
    """As a verification does it; columns without a name get one."""
    rows = [*expected.items(), *actual]
    widths = [len(each) for each in rows[0]] if rows else [1, 0]
    keys = key_columns or [f"key{at}" for at in range(widths[0])]
    values = value_columns or [f"value{at}" for at in range(widths[1])]
    return reconcile_outputs(
        *(Output.of_rows((*keys, *values), [(*key, *row) for key, row in side]) for side in (expected.items(), actual)),
        keys=keys,
        values=values,
        problems=problems,
        notes=notes or {},
        tolerances=tolerances or {},
        **more,
    )
