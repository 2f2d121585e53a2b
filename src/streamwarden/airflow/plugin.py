"""Registers Streamwarden with Airflow: one read-only app, one link from a drill's report task to its page, and a check
of the host's name where that is wanted."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any, Final

from airflow.plugins_manager import AirflowPlugin

PREFIX: Final = "/streamwarden"

ALLOWED_HOSTS: Final = "STREAMWARDEN_ALLOWED_HOSTS"
"""Names by which a browser may ask this Airflow, separated by commas; unset: any. An Airflow without a login needs it:
a page on the internet can give its own name the address 127.0.0.1, and then asks as the user of this machine."""


class StreamwardenPlugin(AirflowPlugin):
    """Every Airflow process loads its plugins; what only one kind of process needs is built when that process asks."""

    name = "streamwarden"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        from streamwarden.airflow.web.app import build_app

        return [{"app": build_app(), "url_prefix": PREFIX, "name": "Streamwarden"}]

    @cached_property
    def fastapi_root_middlewares(self) -> list[dict[str, Any]]:  # type: ignore[override]
        hosts = [host for host in os.environ.get(ALLOWED_HOSTS, "").replace(",", " ").split() if host]
        if not hosts:
            return []
        from fastapi.middleware.trustedhost import TrustedHostMiddleware

        options = {"allowed_hosts": hosts, "www_redirect": False}
        return [{"middleware": TrustedHostMiddleware, "kwargs": options, "name": "Streamwarden: allowed hosts"}]

    @cached_property
    def operator_extra_links(self) -> list[Any]:  # type: ignore[override]
        from streamwarden.airflow.drills import DrillReportLink

        return [DrillReportLink()]
