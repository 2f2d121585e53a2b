"""The tab Drills: what was proven of a stream, and what can break it on purpose."""

from collections.abc import Mapping
from typing import Any, Final

from streamwarden.airflow.web import readable_drills
from streamwarden.airflow.web.tabs.tab import Opened, Tab

PAST: Final = 20
"""Newest runs that are shown."""


def _read(opened: Opened, part: str) -> Mapping[str, Any]:
    space, stream = opened.space, opened.stream
    return {
        "runs": space.store.journals.recent(stream=stream, limit=PAST),
        "drills": readable_drills.configured(space, opened.user, opened.at, stream),
    }


TAB: Final = Tab(name="drills", label="Drills", parts={"drills": "stream_drills.html"}, read=_read)
