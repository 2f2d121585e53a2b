"""Registers Streamwarden with Airflow: one read-only app, and one link from a drill's report task to its page."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from airflow.plugins_manager import AirflowPlugin

PREFIX: Final = "/streamwarden"


class StreamwardenPlugin(AirflowPlugin):
    """Every Airflow process loads its plugins; what only one kind of process needs is built when that process asks."""

    name = "streamwarden"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        from streamwarden.airflow.web import build_app

        return [{"app": build_app(), "url_prefix": PREFIX, "name": "Streamwarden"}]

    @cached_property
    def operator_extra_links(self) -> list[Any]:  # type: ignore[override]
        from streamwarden.airflow.drills import DrillReportLink

        return [DrillReportLink()]
