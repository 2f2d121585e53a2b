"""Links from tasks in Airflow to the pages of the plugin."""

import hashlib
import re
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from airflow.sdk import BaseOperator, BaseOperatorLink

from streamwarden.lifecycle.queries import SEPARATOR
from streamwarden.stream.spec import NAME_PATTERN

PAGES: Final = "/streamwarden"
"""Where the plugin's app is mounted."""


def drill_run_id(drill: str, dag_run_id: str) -> str:
    """The drill's run id for a DAG run: the same for each of its tasks and tries, and safe as a file name.

    Airflow's run ids contain colons, plus signs, and anything that a user typed: the readable part is cut, and a digest
    keeps it unique.
    """
    digits = re.sub(r"[^0-9]", "", dag_run_id)
    stamp = f"{digits[:8]}T{digits[8:14]}" if len(digits) >= 14 else "manual"
    return f"{drill}-{stamp}-{hashlib.sha256(dag_run_id.encode()).hexdigest()[:8]}"


def base_path() -> str:
    """The path under which browsers reach Airflow, without a slash at its end: `/airflow`, or empty."""
    from airflow.configuration import conf

    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


class DrillReportLink(BaseOperatorLink):
    """The link from each task of a drill to the page of its run: it shows the course, and at last the report."""

    name = "Drill report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        return f"{base_path()}{PAGES}/drills/{drill_run_id(getattr(operator, 'drill', ''), ti_key.run_id)}"


class StreamPageLink(BaseOperatorLink):
    """The link from a task whose operator has a `stream` to the page of that stream, or of one of its queries; to the
    fleet if `stream` is empty, as in a task of several streams, or cannot be the name of one."""

    name = "Stream"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        stream, _, query = getattr(operator, "stream", "").partition(SEPARATOR)
        if not NAME_PATTERN.fullmatch(stream):
            return f"{base_path()}{PAGES}/"
        chosen = f"?{urlencode({'query': query})}" if query else ""
        return f"{base_path()}{PAGES}/streams/{stream}{chosen}"
