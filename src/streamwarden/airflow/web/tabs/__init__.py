"""The tabs of a stream's page: each answers one question on its first screen."""

from typing import Final

from streamwarden.airflow.web.tabs import (
    batches,
    charts,
    details,
    drills,
    exceptions,
    history,
    incidents,
    now,
    state,
)
from streamwarden.airflow.web.tabs.tab import Tab

TABS: Final[tuple[Tab, ...]] = (
    now.TAB,
    charts.TAB,
    batches.TAB,
    exceptions.TAB,
    incidents.TAB,
    history.TAB,
    drills.TAB,
    state.TAB,
    details.CHECKPOINT,
    details.ADVICE,
    details.FILE,
)
"""In the order in which they are shown."""
