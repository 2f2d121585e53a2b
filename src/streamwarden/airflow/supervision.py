"""Whether the DAG of a stream is paused, as a running task can find out. The health monitor asks about dead drivers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)


def paused_streams(context: Any) -> Callable[[str], bool | None]:
    """For `HealthMonitor`: says whether the stream's DAG is paused; None if Airflow does not answer or has no such DAG.

    Args:
        context: the context of the running task.
    """

    def is_paused(stream: str) -> bool | None:
        try:
            return bool(context["ti"].get_dag(f"stream_{stream}").is_paused)
        except Exception as error:  # whatever Airflow answers, the stream is judged without it
            _log.warning("it is unknown whether the DAG of %s is paused: %s", stream, error)
            return None

    return is_paused
