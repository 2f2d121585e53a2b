"""Checks that Airflow's own components run, through `/monitor/health` of its API server.

Without them no DAG starts, no deferred task wakes up, and no driver is restarted.
"""

import json
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from streamwarden.health.check_relations import AIRFLOW, EVERYWHERE
from streamwarden.health.verdict import Status, Verdict
from streamwarden.services.monitoring.http import get
from streamwarden.units import format_duration

PATH: Final = "/api/v2/monitor/health"

AGAIN: Final = 5.0
"""Seconds before a bad answer is checked: components that start together are not there at the same moment."""

_REMEDIES: Final[Mapping[str, str]] = {
    "metadatabase": "start Airflow's database, or correct `[database] sql_alchemy_conn`",
    "scheduler": "start `airflow scheduler`: until then no DAG runs, so no stream is started or restarted",
    "triggerer": "start `airflow triggerer`: until then no stream whose driver ends is restarted",
    "dag_processor": "start `airflow dag-processor`: until then Airflow does not notice a changed file",
}
"""Component -> advice, in the order of the messages."""


def airflow_verdict(url: str, now: float, sleep: Callable[[float], None] = time.sleep) -> Verdict:
    """Ask the API server at `url`: CRITICAL if it does not answer, or if one of Airflow's components does not run.

    A bad answer counts if a second one, after `AGAIN` seconds, is bad too.
    """
    verdict = _ask(url, now)
    if verdict.status is Status.OK:
        return verdict
    sleep(AGAIN)
    return _ask(url, now)


def _ask(url: str, now: float) -> Verdict:
    try:
        return judge(json.loads(get(url.rstrip("/") + PATH)), now)
    except OSError as error:
        reason = str(error)
    except ValueError:
        reason = "its answer is not JSON"
    parts = urlsplit(url)  # without user and password
    place = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    return _verdict(now, f"the API server at {place}: {reason}", "start `airflow api-server`")


def judge(document: object, now: float) -> Verdict:
    """The verdict on the answer of `/monitor/health`. Pure.

    Args:
        document: the JSON of the answer; anything but Airflow's own answer is CRITICAL.
        now: Unix seconds.
    """
    if not isinstance(document, Mapping) or not all(isinstance(document.get(name), Mapping) for name in _REMEDIES):
        return _verdict(now, "the server's answer is not that of Airflow 3", "correct `airflow_url`")
    unhealthy = {name: part for name in _REMEDIES if (part := document[name]).get("status") != "healthy"}
    if "metadatabase" in unhealthy:  # the state of the others is read from it
        unhealthy = {"metadatabase": unhealthy["metadatabase"]}
    reasons = [_described(name, part, now) for name, part in unhealthy.items()]
    return _verdict(now, "; ".join(reasons), "; ".join(_REMEDIES[name] for name in unhealthy))


def _verdict(now: float, reason: str, remedy: str) -> Verdict:
    return Verdict(
        stream=EVERYWHERE,
        check=AIRFLOW,
        status=Status.CRITICAL if reason else Status.OK,
        at=now,
        reason=f"Airflow: {reason}" if reason else "all components of Airflow run",
        advice=remedy,
    )


def _described(name: str, part: Mapping[str, Any], now: float) -> str:
    component = f"the {name.replace('_', ' ')}"
    if name == "metadatabase":
        return f"{component} does not answer"
    try:
        last = datetime.fromisoformat(str(part.get(f"latest_{name}_heartbeat"))).timestamp()
    except ValueError:
        return f"{component} does not run"
    return f"{component} does not run: its last heartbeat was {format_duration(max(0.0, now - last))} ago"
