"""The tab History: what happened to a stream, and its drivers."""

import time
from collections.abc import Mapping
from typing import Any, Final

from streamwarden.airflow.web import stream_details
from streamwarden.airflow.web.tabs.tab import RANGES, Opened, Tab
from streamwarden.services.analysis.history import history

EVENTS: Final = 50
"""Newest events that are shown."""
DRIVERS: Final = 20
"""Newest drivers that are shown."""


def _read(opened: Opened, part: str) -> Mapping[str, Any]:
    space, stream, since = opened.space, opened.stream, time.time() - RANGES["7d"]
    drivers, ui = stream_details.drivers(space, stream, since)
    events = history(space.store, stream, since)
    return {"events": events[-EVENTS:][::-1], "drivers": drivers[:DRIVERS], "ui": ui}


TAB: Final = Tab(name="history", label="History", parts={"history": "stream_history.html"}, read=_read)
