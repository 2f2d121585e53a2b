"""When a driver has lost its application: asked of contexts that were stopped, by whom, and of masters that forgot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from streamwarden.lifecycle.failures.exits import failure
from streamwarden.lifecycle.failures.outage_causes import FORGOTTEN, STOPPED
from streamwarden.spark.executors import application_watch
from streamwarden.spark.executors.application_watch import ApplicationWatch, Gone

MASTERS = ("local[2]", "spark://m:7077", "yarn", "k8s://https://api:6443")


class Context:
    """A SparkContext as PySpark has it: `_jsc` is None once Python has stopped it."""

    def __init__(self, master: str = "yarn", *, stopped: bool | Exception = False, executors: int = 0) -> None:
        self.master, self.applicationId = master, "app-1"
        self._stopped = stopped
        tracker = SimpleNamespace(getExecutorInfos=lambda: [None] * (executors + 1))
        in_jvm = SimpleNamespace(isStopped=self._is_stopped, statusTracker=lambda: tracker)
        self._jsc: Any = SimpleNamespace(sc=lambda: in_jvm)

    def _is_stopped(self) -> bool:
        if isinstance(self._stopped, Exception):
            raise self._stopped
        return self._stopped

    def stop(self) -> None:
        self._stopped = True


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> ApplicationWatch:
    """One whose checks follow each other at once."""
    monkeypatch.setattr(application_watch, "EVERY", 0.001)
    return ApplicationWatch(lambda: None)


def opened(watch: ApplicationWatch, context: Context) -> Context:
    watch._watching = True  # no thread: the test asks
    watch.opened(SimpleNamespace(sparkContext=context))
    return context


@pytest.mark.parametrize("master", MASTERS)
@pytest.mark.parametrize(
    ("stopped", "gone"),
    [
        (True, True),
        (False, False),
        (Py4JNetworkError("the JVM is gone"), False),
        (Py4JError("it is going down"), False),
        (ConnectionRefusedError(), False),
    ],
)
def test_a_context_that_was_stopped_from_outside(
    watch: ApplicationWatch, master: str, stopped: bool | Exception, gone: bool
) -> None:
    """On every manager. A JVM that does not answer is another matter: its end has an exit of its own."""
    opened(watch, Context(master, stopped=stopped))
    found = watch.stopped()
    assert (found is not None) is gone
    if found is not None:
        assert found.error_class == STOPPED
        assert "app-1" in found.message


def test_a_context_that_the_job_stops_is_the_jobs_matter(watch: ApplicationWatch) -> None:
    """While it goes down, after it, and until the job has another one."""
    context = opened(watch, Context())
    seen = []

    def stop(stopped: Context) -> None:
        stopped.stop()
        seen.append(watch.stopped())

    watch._stop(stop, context)
    context._jsc = None
    assert [*seen, watch.stopped()] == [None, None]
    assert watch.stopped() is None
    opened(watch, Context(stopped=True))
    assert watch.stopped() is not None, "the next one is watched again"


def test_no_session_no_application(watch: ApplicationWatch) -> None:
    assert watch.stopped() is None


@pytest.mark.parametrize(
    ("master", "executors", "forgetful", "gone"),
    [
        ("spark://a:1", 0, {"spark://a:1"}, True),
        ("spark://a:1,b:2", 0, {"spark://b:2"}, True),
        ("spark://a:1", 1, {"spark://a:1"}, False),
        ("spark://a:1", 0, set(), False),
        ("yarn", 0, {"yarn"}, False),
    ],
)
def test_a_master_that_forgot_the_application(
    watch: ApplicationWatch,
    monkeypatch: pytest.MonkeyPatch,
    master: str,
    executors: int,
    forgetful: set[str],
    gone: bool,
) -> None:
    monkeypatch.setattr(application_watch, "forgot", lambda session, url, application: url in forgetful)
    opened(watch, Context(master, executors=executors))
    found = watch._forgotten()
    assert (found is not None) is gone
    assert found is None or found.error_class == FORGOTTEN


@pytest.mark.parametrize(
    ("looks", "ends"),
    [
        ([True, True], True),
        ([True, False, True, True], True),
        ([True, False, True, False], False),
        ([False] * 4, False),
    ],
)
def test_two_checks_in_a_row_end_the_driver(monkeypatch: pytest.MonkeyPatch, looks: list[bool], ends: bool) -> None:
    """One alone may be of a JVM that a signal ends just now."""
    monkeypatch.setattr(application_watch, "EVERY", 0.0)
    ended: list[Gone | None] = []
    watch = ApplicationWatch(lambda: ended.append(watch.gone))
    context = opened(watch, Context())
    remaining = iter(looks)

    def look() -> bool:
        now = next(remaining, None)
        if now is None:
            watch.close()
        return bool(now)

    context._is_stopped = look  # type: ignore[method-assign]
    context._jsc.sc().isStopped = look
    watch._run()
    assert [gone is not None for gone in ended] == [True] * ends


def test_an_application_that_was_ended_is_started_again_within_the_budget() -> None:
    record = failure(STOPPED, "the application app-1 has ended", at=1.0, cut_batch=None, built=True)
    assert (record.cause, record.curable) == ("application_ended", True)
    in_a_batch = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Master removed our application: KILLED"
    )
    assert failure(None, in_a_batch, at=1.0, cut_batch=None, built=True).cause == "application_ended"
