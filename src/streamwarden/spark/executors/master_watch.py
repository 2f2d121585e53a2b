"""Asks a standalone master whether it still knows the application, once the driver has no executor left.

A master that is restarted without recovery (`spark.deploy.recoveryMode`) knows nothing of the applications before it:
its workers end their executors, and the driver waits for others for ever. Its query is active, and no batch ends.
Such a driver ends itself; the next one registers with the new master.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

from streamwarden.clusters.standalone import MASTERS
from streamwarden.spark.internals.jvm import executor_count
from streamwarden.spark.internals.standalone_master import forgot
from streamwarden.spark.log import say

EVERY: Final = 5.0
"""Seconds between two checks. A lost executor is usually replaced within this time."""

TIMES: Final = 2
"""Looks in a row that have to find the same: a worker may be registering just now."""


class MasterWatch:
    """Watches the first session's application on a standalone cluster, on a separate thread.

    Args:
        end: ends the driver; called once, when `forgotten` says why.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._ended = threading.Event()
        self._started = False
        self.forgotten: str | None = None

    def opened(self, session: Any) -> None:
        """A session was opened: watch its application if it is on a standalone cluster."""
        if self._started:
            return
        try:
            master = session.sparkContext.master
        except Exception as error:  # whatever it is, the job must get its session
            say(f"the master is not watched: {type(error).__name__}: {error}")
            return
        match = MASTERS.address.fullmatch(master)
        if match is None:
            return
        self._started = True
        arguments = (session, [f"spark://{address}" for address in match[1].split(",")])
        threading.Thread(target=self._run, args=arguments, name="streamwarden master", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._ended.set()

    def _run(self, session: Any, urls: list[str]) -> None:
        application, in_a_row = str(session.sparkContext.applicationId), 0
        while not self._ended.wait(EVERY):
            forgetful = None if _executors(session) else _who_forgot(session, urls, application)
            in_a_row = in_a_row + 1 if forgetful else 0
            if in_a_row == TIMES and forgetful:
                self.forgotten = (
                    f"the master {forgetful} does not know the application {application} any more, and no executor is "
                    "left: it was restarted"
                )
                say(self.forgotten)
                self._end()
                return


def _executors(session: Any) -> int:
    """Number of the driver's executors; 1 if it cannot be read now, so that no conclusion is drawn from it."""
    try:
        return executor_count(session)
    except Exception:  # the context or the JVM is going down: py4j has many ways to say so
        return 1


def _who_forgot(session: Any, urls: list[str], application: str) -> str | None:
    """The master that answers, is the active one and does not know the application; None: there is none."""
    return next((url for url in urls if _forgot(session, url, application)), None)


def _forgot(session: Any, url: str, application: str) -> bool:
    try:
        return forgot(session, url, application)
    except Exception:  # the master is unavailable, and the driver waits for it; or the JVM is going down
        return False
