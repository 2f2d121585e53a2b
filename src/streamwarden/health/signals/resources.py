"""How long the application of a stream's driver has waited for resources of its cluster."""

from typing import Final

from streamwarden.health.signals.series import FRESH
from streamwarden.health.window import Measurement, Window

WAITED: Final = "resources_waited_seconds"
"""Name of the measurement. Its source is what the application waits for, in words; 0: it waits no longer."""

EVERY: Final = 10.0
"""Seconds between two questions to the manager of the cluster."""

LONGEST: Final = 200
"""Characters that a measurement keeps of what the application waits for."""


def newest_wait(window: Window) -> Measurement | None:
    """The newest measurement of the newest driver if it is fresh, and the driver waits; None: it does not."""
    launched = window.drivers[-1].launched_at if window.drivers else window.now
    since = max(launched, window.now - FRESH)
    found = [sample for sample in window.measurements if sample.name == WAITED and sample.at >= since]
    return found[-1] if found and found[-1].value else None
