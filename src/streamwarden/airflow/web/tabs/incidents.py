"""The tab Incidents: those of one stream, with what they caused and who takes care of them."""

import time
from collections.abc import Mapping
from typing import Any, Final

from streamwarden.airflow.web.tabs.tab import Of, Opened, Tab
from streamwarden.health.incidents.consequences import grouped
from streamwarden.services.incidents.handling import handling

PAST: Final = 20
"""Newest incidents that are shown."""


def _read(opened: Opened, part: str) -> Mapping[str, Any]:
    store = opened.space.store
    return {
        "incidents": grouped(store.incidents.recent_of(opened.concerned, PAST)),
        "handling": handling(store, time.time(), since=0.0),
    }


TAB: Final = Tab(
    name="incidents", label="Incidents", parts={"incidents": "stream_incidents.html"}, read=_read, of=Of.BOTH
)
