"""The newest uploaded snapshot of each partition of the state, as the progress reports name it."""

from typing import Final

from streamwarden.health.signals.series import reports
from streamwarden.health.window import Window

_METRIC: Final = "SnapshotLastUploaded."


def reported_snapshots(window: Window) -> dict[str, int]:
    """Operator and partition -> version of its newest uploaded snapshot; empty if the reports do not say.

    A driver that has uploaded none since its start reports -1: that gives no answer.
    """
    newest: dict[str, int] = {}
    for report in reports(window, len(window.batches)):
        for operator in report.operators:
            for key, value in operator.custom.items():
                if key.startswith(_METRIC):
                    at = f"{key.removeprefix(_METRIC)} of operator {operator.index}"
                    newest[at] = max(newest.get(at, -1), value)
    return newest if newest and min(newest.values()) >= 0 else {}
