"""The tab Batches: the newest batches of a stream, one line each."""

from collections.abc import Mapping
from typing import Any, Final

from streamwarden.airflow.web.tabs.tab import Of, Opened, Tab
from streamwarden.airflow.web.words.batches import lines

SHOWN: Final = 100
"""Newest batches that the page has."""


def _read(opened: Opened, part: str) -> Mapping[str, Any]:
    return {"lines": lines(opened.space.store.batches.window(opened.row.stream, SHOWN))}


TAB: Final = Tab(name="batches", label="Batches", parts={"batches": "stream_batch_lines.html"}, read=_read, of=Of.QUERY)
