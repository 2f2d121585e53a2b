"""Distinguishes a stream that was stopped on purpose from one that is down."""

from streamwarden.health.window import Window
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.lifecycle.queries import Part


def has_ended(window: Window) -> bool:
    """Whether this query, one of several, has ended while its driver is alive: the check `query_ended` judges that."""
    query, newest = window.query, window.drivers[-1] if window.drivers else None
    if window.part is not Part.QUERY or query is None or newest is None:
        return False
    return query.ended_at is not None and query.driver_id == newest.driver_id and newest.exit is None


def never_ran(window: Window) -> bool:
    """Whether the stream has no recorded driver and its checkpoint has no batch."""
    return not window.drivers and (window.log is None or window.log.planned is None)


def is_down(window: Window) -> bool:
    """Whether no driver is alive (there was one, or none is wanted) or the query has ended; False if unknown."""
    if has_ended(window):
        return True
    if window.driver_alive is None:
        return window.drivers[-1].exit is not None if window.drivers else window.wanted_stopped
    return not window.driver_alive


def is_stopped(window: Window) -> bool:
    """Whether no driver is alive and none should be: the stream should be stopped, or its last driver obeyed a stop or
    read all its input.

    A query that ended by itself, although its trigger never ends a query, should still be running.
    """
    if has_ended(window):
        return True
    if not is_down(window):
        return False
    end = window.drivers[-1].exit if window.drivers else None
    if window.wanted_stopped or end is None:
        return window.wanted_stopped
    return end.kind is ExitKind.STOPPED or (end.kind is ExitKind.COMPLETED and window.spec.ends)


def is_interrupted(window: Window) -> bool:
    """Whether the query does not run, although it has not come to its end by itself or on request."""
    if window.wanted_stopped and is_down(window):
        return True
    if has_ended(window):
        query = window.query
        return query is None or query.error is not None or not query.trigger.available_now
    return is_down(window) and not (window.drivers and ended_well(window.drivers[-1]))


def running_since(window: Window) -> float:
    """The last requested start, Unix seconds; restarts after a failure do not change it.

    0 if it is older than the drivers of the window.
    """
    since = 0.0
    for driver in reversed(window.drivers):
        if ended_well(driver):
            break
        since = driver.launched_at
    return since


def ended_well(driver: DriverRecord) -> bool:
    """Whether the driver obeyed a stop or read all its input."""
    return driver.exit is not None and driver.exit.kind in (ExitKind.STOPPED, ExitKind.COMPLETED)
