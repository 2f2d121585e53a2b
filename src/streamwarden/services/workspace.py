"""A workspace: one project folder and one data folder, and the parts built on them. Opening one reads nothing.

What belongs to a host (drivers, drills, audits, the default store) is in the data folder. So is what a stream's file
names by a relative path, unless a URL is named in the place of the data folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.checkpoint.formats.uris import of_hadoop
from streamwarden.errors import ConfigError, StoreError
from streamwarden.lifecycle.location import URL, DataUrl, normalized
from streamwarden.lifecycle.queries import SEPARATOR, Part, QueryRecord, owner, stream_parts
from streamwarden.redaction import redacted_text

if TYPE_CHECKING:  # each of these takes seconds or hundreds of milliseconds to import: only its users import it
    from streamwarden.adapters.store import Store
    from streamwarden.config.loading import Catalog
    from streamwarden.config.ownership import Tenure
    from streamwarden.drills.engine import Engine
    from streamwarden.drills.spec import DrillSpec
    from streamwarden.health.thresholds import Thresholds
    from streamwarden.services.fleet.fleet import Fleet
    from streamwarden.services.monitoring.health_monitor import HealthMonitor
    from streamwarden.stream.spec import StreamSpec

PROJECT_VARIABLE: Final = "STREAMWARDEN_PROJECT"
DATA_VARIABLE: Final = "STREAMWARDEN_DATA"
LOCAL_DATA_VARIABLE: Final = "STREAMWARDEN_LOCAL_DATA"
STORE_VARIABLE: Final = "STREAMWARDEN_STORE_URL"


@dataclass(frozen=True)
class Workspace(AbstractContextManager["Workspace"]):
    """The places of a project.

    Args:
        project: absolute folder that holds `config/`, `spark_jobs/` and `dags/`.
        data: absolute folder of drivers, drills and the embedded store.
        store_url: SQLAlchemy URL of the store; it may hold a password, so the repr masks it.
        data_url: what the streams' relative paths are below; None: the data folder.
    """

    project: Path
    data: Path
    store_url: str
    data_url: DataUrl | None = None

    @classmethod
    def open(
        cls,
        project: Path | str | None = None,
        data: Path | str | None = None,
        store_url: str | None = None,
        *,
        local_data: Path | str | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Workspace:
        """An argument wins over the environment, the environment over the default. Reads no file, and writes none.

        Args:
            data: folder or URL of the streams' relative paths.
            local_data: the data folder, if `data` is a URL.

        Raises ConfigError, with every place that was tried, if there is no project; for two data folders.
        """
        env = os.environ if environ is None else environ
        here = Path.cwd() if cwd is None else cwd
        home = find_project(project or env.get(PROJECT_VARIABLE), here)
        root, data_url = find_data(home, data, local_data, environ=env, here=here)
        url = store_url or env.get(STORE_VARIABLE) or f"sqlite:///{root / 'streamwarden.db'}"
        return cls(home, root, url, data_url)

    def __repr__(self) -> str:
        url = redacted_text(self.store_url)
        return f"Workspace(project={str(self.project)!r}, data={str(self.data)!r}, store_url={url!r})"

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def root(self) -> Path | DataUrl:
        """What the streams' relative paths are below."""
        return self.data_url or self.data

    def environment(self) -> dict[str, str]:
        """The variables with which another process opens this same workspace."""
        return {
            PROJECT_VARIABLE: str(self.project),
            DATA_VARIABLE: str(self.root),
            LOCAL_DATA_VARIABLE: str(self.data),
            STORE_VARIABLE: self.store_url,
        }

    def catalog(self) -> Catalog:
        """All streams, read again: a file that was added or corrected counts at once.

        If two streams name one place, the store says which of them keeps it.
        """
        from streamwarden.config.loading import load_catalog

        return load_catalog(self.project, self.data, self._tenure, data_url=self.data_url)

    def fleet_catalog(self) -> Catalog:
        """The catalog, with the streams that run without a file. Raises StoreError."""
        from streamwarden.services.fleet.undeclared import with_undeclared

        return with_undeclared(self.catalog(), self.store, self.fleet) if self.has_store() else self.catalog()

    def stream(self, name: str) -> StreamSpec:
        """One stream, to start it. Raises ConfigError if it is not there or its file is broken; for a stream that runs
        without a file, with what to do about it."""
        catalog = self._with_undeclared(name)
        if name in catalog.undeclared:
            raise catalog.undeclared[name]
        return catalog.get(name)

    def declared_or_running(self, name: str) -> StreamSpec:
        """One stream, to look at it: as its file declares it, or else as its living driver was started with."""
        return self._with_undeclared(name).get(name)

    def require_known(self, name: str) -> None:
        """Raises ConfigError for a name that neither a file nor a driver has; StoreError if no file has it and the
        store is down."""
        catalog = self.catalog()
        declared = name in catalog.streams or name in catalog.broken
        if not declared and (not self.has_store() or self.store.drivers.latest(name) is None):
            catalog.get(name)

    def _with_undeclared(self, name: str) -> Catalog:
        """The files' catalog if one of them has this name, otherwise with the streams that run without a file."""
        catalog = self.catalog()
        return catalog if name in catalog.streams or name in catalog.broken else self.fleet_catalog()

    def query(self, name: str) -> StreamSpec:
        """A stream, or one query of several (`STREAM/QUERY`) with its own checkpoint and trigger.

        A store that is down hides only what no file declares. Raises ConfigError if there is none of this name, or
        several and none is named; StoreError if only the store knows it.
        """
        from streamwarden.config.loading import unknown

        queries = self._queries(name)
        if name not in queries:
            next_step = f"name one of them; `streamwarden status {owner(name)}` lists them"
            raise unknown("query", name, list(queries), next_step)
        return queries[name]

    def queries(self, stream: str) -> tuple[StreamSpec, ...]:
        """Each query of a stream with its own checkpoint; the stream itself if it has one query. Raises ConfigError."""
        return tuple(self._queries(stream).values())

    def _queries(self, name: str) -> dict[str, StreamSpec]:
        spec = self.declared_or_running(owner(name))
        records: tuple[QueryRecord, ...] = ()
        try:
            records = self.store.queries.of(spec.name) if self.has_store() else ()
        except StoreError:
            if SEPARATOR in name and name.partition(SEPARATOR)[2] not in spec.queries:
                raise
        parts = stream_parts(spec, records, time.time())
        return {part.spec.name: part.spec for part in parts if part.part is not Part.DRIVER}

    def _tenure(self, stream: str) -> Tenure | None:
        from streamwarden.services.fleet.stream_history import tenure

        return tenure(self.store, stream, time.time()) if self.has_store() else None

    def has_store(self) -> bool:
        """Whether the store exists yet: reading a checkpoint must not create one."""
        embedded = self.store_url.removeprefix("sqlite:///")
        return embedded == self.store_url or Path(embedded).exists()

    def drills(self) -> dict[str, DrillSpec]:
        """All drills with a correct file, by name."""
        from streamwarden.config.loading import load_drills

        return load_drills(self.project)[0]

    def drill(self, name: str) -> DrillSpec:
        """One drill. Raises ConfigError if it is not there or its file is broken."""
        from streamwarden.config.loading import load_drills, unknown

        drills, broken = load_drills(self.project)
        if name in drills:
            return drills[name]
        if name in broken:
            raise broken[name]
        raise unknown("drill", name, [*drills, *broken], "`streamwarden drill list` shows all")

    def thresholds(self) -> Thresholds:
        """Defaults of the checks with the project's `config/thresholds.yaml` over them. Raises ConfigError."""
        from streamwarden.config.loading import load_thresholds

        return load_thresholds(self.project)

    @cached_property
    def store(self) -> Store:
        """The progress store, migrated to this version. Raises StoreError if it cannot be reached."""
        from streamwarden.adapters.store import Store

        if self.store_url.startswith("sqlite:///"):
            self._ensure(Path(self.store_url.removeprefix("sqlite:///")).parent)
        store = Store(self.store_url)
        store.migrate()
        return store

    @cached_property
    def fleet(self) -> Fleet:
        """Starts, observes and stops the drivers of this workspace."""
        from streamwarden.services.fleet.fleet import Fleet

        self._ensure(self.data)
        return Fleet(self.store, self.data)

    def health_monitor(self) -> HealthMonitor:
        """Observes streams and judges them. Raises ConfigError for a broken thresholds file, StoreError."""
        from streamwarden.services.monitoring.health_monitor import HealthMonitor

        return HealthMonitor(self.store, thresholds=self.thresholds())

    def drill_engine(self, *, paused: Callable[[str], bool | None] = lambda stream: None) -> Engine:
        """Runs the drills of this workspace. Raises ConfigError, StoreError.

        Args:
            paused: whether the DAG of a stream is paused; None: unknown, as in a shell.
        """
        from streamwarden.services.drilling.engine import build_engine

        return build_engine(
            self.drills(),
            stream=self.stream,
            streams=lambda: self.fleet_catalog().streams.values(),
            store=self.store,
            fleet=self.fleet,
            health_monitor=self.health_monitor(),
            project=self.project,
            data=self.data,
            paused=paused,
        )

    def _ensure(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the folder cannot be created: {error.strerror}",
                expected="a folder that this user may write to",
                where=str(folder),
                next_step=f"correct its permissions or set {LOCAL_DATA_VARIABLE if self.data_url else DATA_VARIABLE}",
            ) from error

    def close(self) -> None:
        """Let go of the store; harmless if it was never opened."""
        store = self.__dict__.pop("store", None)
        self.__dict__.pop("fleet", None)
        if store is not None:
            store.close()


def find_project(given: Path | str | None, here: Path) -> Path:
    """The project's folder: `given` (relative to `here`), or the nearest folder from `here` upward that is a project.

    Raises ConfigError, with every place that was tried, if there is no project.
    """
    if given is not None:
        home = Path(os.path.normpath(here / Path(given)))
        if not (home / "config" / "streams").is_dir():
            raise ConfigError(
                "this folder is not a project: it has no folder config/streams",
                expected="a folder that holds config/streams",
                where=str(home),
                next_step=f"correct --project or {PROJECT_VARIABLE}",
            )
        return home
    for folder in (here, *here.parents):
        if (folder / "config" / "streams").is_dir():
            return folder
    raise ConfigError(
        "no project found",
        expected=f"a folder config/streams in {here} or in a folder above it",
        where=f"{PROJECT_VARIABLE} is not set",
        next_step=f"change into the project's folder, or set {PROJECT_VARIABLE}",
    )


def find_data(
    project: Path,
    given: Path | str | None = None,
    local: Path | str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    here: Path | None = None,
) -> tuple[Path, DataUrl | None]:
    """The data folder, and the URL that the streams' relative paths are below instead, if there is one.

    The folder is `given`, STREAMWARDEN_DATA, or `var` in the project. If that is a URL, the folder is `local`,
    STREAMWARDEN_LOCAL_DATA, or `var` in the project. Relative ones are below `here`.

    Raises ConfigError for two folders, and for a URL that became a path.
    """
    env = os.environ if environ is None else environ
    named = of_hadoop(os.fspath(given or env.get(DATA_VARIABLE) or ""))
    url = DataUrl(normalized(named)) if URL.match(named) else None
    of_host = env.get(LOCAL_DATA_VARIABLE) if url or not given else None  # an argument wins over the environment
    own = of_hadoop(os.fspath(local or of_host or ""))
    places = [os.path.normpath((here or Path.cwd()) / text) for text in ("" if url else named, own) if text]
    if isinstance(given, Path) and url is not None:
        raise _lost_its_slash(given)
    if len({*places}) > 1 or URL.match(own):
        raise _two_folders(named, own)
    return Path(places[0] if places else project / "var"), url


def _lost_its_slash(given: Path) -> ConfigError:
    return ConfigError(
        f"the URL of the data folder was given as the path {given}, which lacks a slash",
        expected="the URL as text",
        where="the argument `data`",
        next_step="pass it as it is, not as a Path",
    )


def _two_folders(named: str, own: str) -> ConfigError:
    return ConfigError(
        f"the folder for what belongs to this host is {own}, and the data folder is {named or 'not named'}",
        expected="a folder of this host, and only beside a data folder that is a URL",
        where=f"--local-data or {LOCAL_DATA_VARIABLE}",
        next_step=f"remove it, or name a URL such as hdfs://lake/streams by --data or {DATA_VARIABLE}",
    )
