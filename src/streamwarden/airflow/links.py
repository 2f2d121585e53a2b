"""Links from tasks in Airflow to the pages of the plugin."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from airflow.sdk import BaseOperator, BaseOperatorLink

from streamwarden.airflow.drill_runs import drill_run_id

PAGES: Final = "/streamwarden"
"""Where the plugin's app is mounted."""


def base_path() -> str:
    """The path under which browsers reach Airflow, without a slash at its end: `/airflow`, or empty."""
    from airflow.configuration import conf

    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


class DrillReportLink(BaseOperatorLink):
    """The link from the drill's report task to the page of the report."""

    name = "Drill report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        return f"{base_path()}{PAGES}/drills/{drill_run_id(getattr(operator, 'drill', ''), ti_key.run_id)}"


class StreamPageLink(BaseOperatorLink):
    """The link from the task that follows a stream to the stream's page."""

    name = "Stream"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        return f"{base_path()}{PAGES}/streams/{getattr(operator, 'stream', '')}"
