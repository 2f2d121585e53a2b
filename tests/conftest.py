"""A migrated store for all tests that want one: the migrations run once, and each test gets a copy of the file."""

from __future__ import annotations

import gc
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from streamwarden import redaction
from support.claimed_files import ClaimedFiles
from support.servers.inbox import Inbox

if TYPE_CHECKING:
    from support.airflow.installation import Installation
    from support.airflow.site import SharedSite

# Importing the tests makes a million objects, all of which stay: a collection finds nothing, and takes a second.
gc.disable()

# A worker of pytest-xdist is `python -c …`. PySpark takes a program without a file for a doctest run of its own, and
# ends it if a package of Spark Connect is missing.
sys.modules["__main__"].__file__ = getattr(sys.modules["__main__"], "__file__", __file__)

# A shell that starts the tests in the background has them ignore Ctrl-C, and whatever they start after them.
signal.signal(signal.SIGINT, signal.default_int_handler)

_DULL = "dull"
_NOTABLE = 1.0
"""Seconds for a fixture; `make test` names the sixty slowest tests and fixtures."""

# No deadline for an example: how long it takes says how busy the machine is.
settings.register_profile("thorough", deadline=None)  # `make test`: 100 examples of each property
settings.register_profile("quick", max_examples=10, deadline=None, database=None)  # `make test-unit`
settings.register_profile("nightly", max_examples=10_000, deadline=None)  # `make test-full`
settings.load_profile("thorough")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of these tests. pytest reads them here alone, and from no folder below."""
    parser.addoption("--pictures", metavar="FOLDER", type=Path, help="take the pictures of the documentation again")
    parser.addoption("--full", action="store_true", help="run the tests with the marker `full`, too")
    parser.addoption("--claims", metavar="FOLDER", type=Path, help="share the files with others who name it")


SHARING = frozenset(
    (
        "tests/browser/test_airflow_ui.py",
        "tests/browser/test_pages.py",
        "tests/browser/test_seen_in_time.py",
        "tests/browser/test_state_page.py",
        "tests/integration/airflow/test_assets_and_metrics.py",
    )
)
"""The files whose tests want the Airflow of the fixture `shared_site`."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the second tier out unless `--full` asks for it, and put the files that start Spark or Airflow first. Each
    takes minutes: if one of them began last, the other worker of `make test` would have nothing left to do."""
    wanting = {item.location[0] for item in items if "shared_site" in getattr(item, "fixturenames", ())}
    if wanting - SHARING:
        raise pytest.UsageError(f"add to SHARING in tests/conftest.py: {wanting - SHARING}")
    if not config.getoption("--full"):
        beyond = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=beyond)
        items[:] = [item for item in items if not item.get_closest_marker("full")]
    heavy = {item.path for item in items if item.get_closest_marker("spark") or item.get_closest_marker("airflow")}
    items.sort(key=lambda item: (item.path not in heavy, "site" not in getattr(item, "fixturenames", ())))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on the collector runs, and passes over what the imports made: also when this process ends, which takes
    two seconds otherwise."""
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    if claims := config.getoption("--claims"):
        config.pluginmanager.register(ClaimedFiles(claims))
    _report_once(config)


def _report_once(config: pytest.Config) -> None:
    """A worker reports a test that passes once, in place of six times: what is sent takes a third of the time that
    pytest itself takes for a test. A file in JUnit's format wants every report."""
    worker = next((plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "sendevent")), None)
    if worker is not None and not config.option.xmlpath:
        config.pluginmanager.register(OneReport(worker))


class OneReport:
    """What `worker`, of pytest-xdist, sends no more: that a test begins, that its fixtures are made, torn down, and
    that it ended. Whatever fails, is skipped, or takes long enough for `--durations` to name it is sent."""

    def __init__(self, worker: Any) -> None:
        self._send, worker.sendevent = worker.sendevent, self.send

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(self, report: Any) -> dict[str, Any] | None:
        quick = isinstance(report, pytest.TestReport) and report.duration < _NOTABLE
        return {_DULL: True} if quick and report.passed and report.when != "call" else None

    def send(self, name: str, **kwargs: Any) -> None:
        if name not in ("logstart", "logfinish") and _DULL not in kwargs.get("data", ()):
            self._send(name, **kwargs)


class SharingScheduling(LoadFileScheduling):
    """`--dist loadfile`, and one worker for all files that share an Airflow, which starts once then."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "the shared Airflow" if file in SHARING else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return SharingScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    """No test redacts what another one read as a secret."""
    redaction._remembered.clear()


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a migrated, empty store; not to be opened, only copied."""
    from streamwarden.adapters.store import Store

    path = tmp_path_factory.mktemp("store") / "template.db"
    with Store(f"sqlite:///{path}") as store:
        store.migrate()
    return path


@pytest.fixture
def store_url(migrated: Path, tmp_path: Path) -> str:
    """The URL of this test's own migrated, empty store."""
    return f"sqlite:///{shutil.copy(migrated, tmp_path / 'store.db')}"


@pytest.fixture(scope="session")
def shared_site() -> Iterator[SharedSite]:
    """Ends the shared Airflow after an interrupted run, too."""
    from support.airflow.site import shared

    yield shared
    shared.end()


@pytest.fixture
def site(shared_site: SharedSite, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An Airflow with a stream that runs, shared by the tests of this worker that want one."""
    return shared_site.installation(tmp_path_factory)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End the shared Airflow when no test that follows wants it: it would take processor time from all others."""
    made = sys.modules.get("support.airflow.site")
    if made is not None and "site" not in getattr(nextitem, "fixturenames", ()):
        made.shared.end()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """A web hook on this machine."""
    with Inbox() as opened:
        yield opened
