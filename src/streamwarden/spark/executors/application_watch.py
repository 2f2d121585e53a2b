"""Ends a driver whose application ended without the job, which Spark leaves running.

1. Something other than the job stopped the SparkContext. In client mode Spark stops it when the cluster ends the
   application: `yarn application -kill`, a kill on a master's page, too many failed executors. On every master it does
   so when its scheduler fails. The process lives on, and a query that finds no new data asks nothing of the context.
2. A standalone master was restarted without recovery (`spark.deploy.recoveryMode`), and knows nothing of the
   applications before: its workers end their executors, and the driver waits for others for ever.

Such a driver ends itself; the next one registers a new application.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyspark import SparkContext

from streamwarden.clusters.standalone import MASTERS
from streamwarden.lifecycle.failures.outage_causes import FORGOTTEN, STOPPED
from streamwarden.spark.internals.hooks import around
from streamwarden.spark.internals.jvm import JVM_ERRORS, executor_count, is_stopped
from streamwarden.spark.internals.standalone_master import forgot
from streamwarden.spark.log import say

EVERY: Final = 5.0
"""Seconds between two checks. A lost executor is usually replaced within this time, and a JVM that goes down, which
stops its context too, is gone: two checks in a row have to find the same."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Why a driver has no application any more, for `failure`."""

    error_class: str
    message: str


class ApplicationWatch:
    """Watches the application of the newest session, on a separate thread.

    Args:
        end: ends the driver; called once, when `gone` says why.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._ended = threading.Event()
        self._session: Any = None
        self._application = ""
        self._stopped_by_job = False
        self._watching = False
        self.gone: Gone | None = None

    def watch(self) -> None:
        """From now on, tell a stop by the job from others."""
        around(SparkContext, "stop", self._stop)

    def _stop(self, stop: Callable[[Any], None], context: Any) -> None:
        self._stopped_by_job = True
        stop(context)

    def opened(self, session: Any) -> None:
        """A session was opened: watch its application."""
        try:
            self._application = str(session.sparkContext.applicationId)
        except Exception as error:  # whatever it is, the job must get its session
            say(f"the application is not watched: {type(error).__name__}: {error}")
            return
        self._session, self._stopped_by_job = session, False
        if not self._watching:
            self._watching = True
            threading.Thread(target=self._run, name="streamwarden application", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._ended.set()

    def stopped(self) -> Gone | None:
        """Why the job has no SparkContext any more, if the job did not stop it."""
        if self._session is None or self._stopped_by_job:
            return None
        try:
            stopped = is_stopped(self._session)
        except (*JVM_ERRORS, AttributeError):  # the JVM is going down; or the job has stopped the context meanwhile
            return None
        if not stopped:
            return None
        why = "something other than the job stopped its SparkContext; driver.log has the reason that Spark gives"
        return Gone(STOPPED, f"the application {self._application} has ended: {why}")

    def _run(self) -> None:
        before: Gone | None = None
        while not self._ended.wait(EVERY):
            found = self.stopped() or self._forgotten()
            if found is not None and found == before:
                self.gone = found
                say(found.message)
                self._end()
                return
            before = found

    def _forgotten(self) -> Gone | None:
        """Why no executor will come any more, if none is left and the active master does not know the application."""
        masters = MASTERS.named_by(self._session.sparkContext.master)
        if not masters or _executors(self._session):
            return None
        urls = [f"spark://{address}" for address in masters.split(",")]
        master = next((url for url in urls if _forgot(self._session, url, self._application)), None)
        if master is None:
            return None
        message = (
            f"the master {master} does not know the application {self._application} any more, and no executor is left"
        )
        return Gone(FORGOTTEN, f"{message}: it was restarted")


def _executors(session: Any) -> int:
    """Number of the driver's executors; 1 if it cannot be read now, so that no conclusion is drawn from it."""
    try:
        return executor_count(session)
    except Exception:  # the context or the JVM is going down: py4j has many ways to say so
        return 1


def _forgot(session: Any, url: str, application: str) -> bool:
    try:
        return forgot(session, url, application)
    except Exception:  # the master is unavailable, and the driver waits for it; or the JVM is going down
        return False
