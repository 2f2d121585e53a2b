"""The tabs of what a stream is made of: its checkpoint, advice on its settings, its file."""

import time
from collections.abc import Mapping
from typing import Any, Final

from streamwarden.airflow.web import stream_details
from streamwarden.airflow.web.tabs.tab import Of, Opened, Tab
from streamwarden.airflow.web.words.advice import folded, in_order
from streamwarden.config.loading import STREAMS
from streamwarden.services.overview.anatomy import facts


def _checkpoint(opened: Opened, part: str) -> Mapping[str, Any]:
    report, problem = stream_details.checkpoint(opened.space, opened.stream, opened.asked.query)
    return {"found": report, "facts": facts(report, time.time()) if report else (), "problem": problem}


def _advice(opened: Opened, part: str) -> Mapping[str, Any]:
    found = stream_details.advice(opened.space, opened.stream, opened.asked.query)
    return {
        "findings": folded(found.findings),
        "pieces": in_order(found.recommendations),
        "problems": found.problems,
    }


def _file(opened: Opened, part: str) -> Mapping[str, Any]:
    path = f"{STREAMS}/{opened.stream}.yaml"
    return {"path": path, "declaration": stream_details.declaration(opened.space, opened.stream)}


CHECKPOINT: Final = Tab(
    name="checkpoint",
    label="Checkpoint",
    parts={"checkpoint": "stream_checkpoint.html"},
    read=_checkpoint,
    every=30,
    of=Of.QUERY,
)
ADVICE: Final = Tab(
    name="advice", label="Advice", parts={"advice": "stream_advice.html"}, read=_advice, every=300, of=Of.BOTH
)
FILE: Final = Tab(name="file", label="File", parts={"file": "stream_file.html"}, read=_file, every=15)
