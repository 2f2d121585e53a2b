"""Registers Streamwarden with Airflow: its pages, an entry in the navigation, a tab of each DAG and links from tasks;
also a check of the host's name where that is wanted."""

import os
from functools import cached_property
from typing import Any, Final

from airflow.plugins_manager import AirflowPlugin

ALLOWED_HOSTS: Final = "STREAMWARDEN_ALLOWED_HOSTS"
"""Names by which a browser may ask this Airflow, separated by commas; unset: any. An Airflow without a login needs it:
a page on the internet can give its own name the address 127.0.0.1, and then asks as the user of this machine."""


class StreamwardenPlugin(AirflowPlugin):
    """Every Airflow process loads its plugins; what only one kind of process needs is built when that process asks."""

    name = "streamwarden"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        from streamwarden.airflow.links import PAGES
        from streamwarden.airflow.web.app import build_app

        return [{"app": build_app(), "url_prefix": PAGES, "name": "Streamwarden"}]

    @cached_property
    def external_views(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The entry *Streams* in the navigation, and the tab *Stream* of each DAG: Airflow cannot show it on some only,
        so the tab of any other DAG leads to the fleet."""
        from streamwarden.airflow.links import PAGES, base_path

        pages = f"{base_path()}{PAGES}"
        return [
            {
                "name": "Streams",
                "href": f"{pages}/",
                "destination": "nav",
                "url_route": "streams",
                "nav_top_level": True,
            },
            {
                "name": "Stream",
                "href": f"{pages}/dags/{{DAG_ID}}",
                "destination": "dag",
                "url_route": "stream",
            },
        ]

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
        from streamwarden.airflow.links import DrillReportLink, StreamPageLink

        return [DrillReportLink(), StreamPageLink()]
