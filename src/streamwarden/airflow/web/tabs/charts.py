"""The tab Charts: every chart of a stream, over one range."""

import time
from collections.abc import Mapping
from typing import Any, Final

from streamwarden.airflow.web.tabs.tab import LAUNCH, RANGES, Of, Opened, Tab

LEAST: Final = RANGES["15m"]
"""The range since the launch is never shorter: what was before a restart is worth a look, too."""


def since_launch(opened: Opened) -> float:
    """When the stream's newest driver was launched, Unix seconds; the shortest range before now at the latest."""
    newest, now = opened.space.store.drivers.latest(opened.stream), time.time()
    launched = now if newest is None else newest.launched_at
    return max(now - RANGES["90d"], min(launched, now - LEAST))


def _read(opened: Opened, part: str) -> Mapping[str, Any]:
    chosen = opened.asked.range
    return {
        "ranges": (LAUNCH, *RANGES),
        "range": chosen,
        "seconds": RANGES.get(chosen),
        "since": since_launch(opened) if chosen == LAUNCH else None,
    }


TAB: Final = Tab(name="charts", label="Charts", page="stream_charts.html", parts={}, read=_read, of=Of.BOTH, draws=True)
