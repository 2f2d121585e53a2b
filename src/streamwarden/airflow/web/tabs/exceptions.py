"""The tab Exceptions: what ended the stream's drivers and queries, and the log around it."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from streamwarden.airflow.web import stream_details
from streamwarden.airflow.web.access import may_read_logs
from streamwarden.airflow.web.tabs.tab import Opened, Tab
from streamwarden.airflow.web.words.exceptions import Raised, raised
from streamwarden.airflow.web.words.log_lines import around, searched
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.units import DAY

DAYS: Final = 30
"""Of which errors are shown."""
LINES: Final = 5000
"""The last lines of a log that are searched."""


def _read(opened: Opened, part: str) -> Mapping[str, Any]:
    store, stream, since = opened.space.store, opened.stream, time.time() - DAYS * DAY
    drivers = store.drivers.history(stream, since)
    errors = raised(drivers, (query for query in store.queries.of(stream) if (query.ended_at or 0.0) >= since))
    shown = {"errors": errors, "days": DAYS, "known": {driver.driver_id for driver in drivers}}
    if part == "exceptions":
        return shown
    return {**shown, **_log(opened, opened.asked.driver or _newest(drivers, errors), errors)}


def _newest(drivers: Sequence[DriverRecord], errors: Sequence[Raised]) -> str:
    """The driver that failed last; the newest one if none did, and empty if there is none."""
    ids = [driver.driver_id for driver in reversed(drivers)]
    return next((each.driver_id for each in errors if each.driver_id in ids), ids[0] if ids else "")


def _log(opened: Opened, driver_id: str, errors: Sequence[Raised]) -> dict[str, Any]:
    """The log of one driver, for a user who may read it."""
    shown = {"driver_id": driver_id, "may_read": may_read_logs(opened.stream, opened.user), "log": None}
    if not driver_id or not shown["may_read"]:
        return shown
    log, asked = stream_details.end_of(opened.space, opened.stream, driver_id, LINES), opened.asked
    if asked.level or asked.q:
        records = searched(log.lines, asked.level, asked.q)
    else:
        text = next((each.text for each in errors if each.driver_id == driver_id), "")
        records = around(log.lines, text.partition("\n")[0])
    return {**shown, "log": log, "records": records}


TAB: Final = Tab(
    name="exceptions",
    label="Exceptions",
    page="stream_exceptions.html",
    parts={"exceptions": "stream_errors.html", "log": "stream_log_records.html"},
    read=_read,
    every=10,
)
