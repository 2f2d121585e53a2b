"""The links in a message: the page, the run and the log of its subject."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from streamwarden.health.check_relations import DRILL, EVERYWHERE, OVERDUE
from streamwarden.lifecycle.driver_folder import LOG
from streamwarden.lifecycle.queries import owner

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.health.incidents.incident import Incident
    from streamwarden.lifecycle.driver import DriverRecord

_LAUNCHED: Final = re.compile(r"airflow (?P<dag>\S+) (?P<run>\S+) try [0-9]+")
"""Who launched a driver, as a task of a stream's DAG records it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Each is a URL of Airflow, or empty if Airflow's address is not known; `log` may also be a file."""

    page: str = ""
    run: str = ""
    log: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each link that there is."""
        shown = (("Page", self.page), ("Run", self.run), ("Log", self.log))
        return tuple(f"{name}: {link}" for name, link in shown if link)


def links_of(store: Store, base: str, incident: Incident) -> Links:
    """The links of an incident. Raises StoreError. `base`: URL of Airflow as its users open it; empty if it is not
    known."""
    if incident.check.startswith(DRILL) and incident.check != OVERDUE:
        newest = store.journals.recent(drill=incident.check.removeprefix(DRILL), limit=1)
        return drill_links(base, incident.check, newest[0].run_id if newest else None)
    if incident.stream == EVERYWHERE:
        return Links(page=base, run=f"{base}/dags/health" if base else "")
    return stream_links(base, owner(incident.stream), store.drivers.latest(owner(incident.stream)))


def stream_links(base: str, stream: str, driver: DriverRecord | None) -> Links:
    """The links of a stream: the run that launched its newest driver, and the log of that driver. Pure."""
    file = str(Path(driver.folder) / LOG) if driver is not None else ""
    if not base:
        return Links(log=file)
    launched = _LAUNCHED.fullmatch(driver.launched_by) if driver is not None else None
    page = f"{base}/streamwarden/streams/{stream}"
    if launched is None:
        return Links(page=page, log=file)
    run = run_url(base, launched["dag"], launched["run"])
    return Links(page=page, run=run, log=f"{run}/tasks/run")


def drill_links(base: str, dag: str, run_id: str | None) -> Links:
    """The links of a drill: the page of its newest run, and the runs of its DAG. Pure."""
    if not base:
        return Links()
    return Links(page=f"{base}/streamwarden/drills/{run_id}" if run_id else "", run=f"{base}/dags/{dag}/runs")


def run_url(base: str, dag: str, run: str) -> str:
    """The page of one run of a DAG."""
    return f"{base}/dags/{quote(dag, safe='')}/runs/{quote(run, safe='')}"
