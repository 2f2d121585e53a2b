"""SQLite for the thousand stores of a test run: what SQLAlchemy finds out for each engine, it finds out once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Self

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from streamwarden.adapters.store import database


class OneDialect(SQLiteDialect_pysqlite):
    """The dialect of all engines. It asks the library for its version and abilities at the first connection alone."""

    supports_statement_cache = True
    _one: OneDialect | None = None
    _begun = _asked = False

    def __new__(cls, **_: Any) -> Self:
        if cls._one is None:
            cls._one = super().__new__(cls)
        return cls._one

    def __init__(self, **settings: Any) -> None:
        if not self._begun:
            self._begun = True
            super().__init__(**settings)

    def initialize(self, connection: sa.Connection) -> None:
        if not self._asked:
            super().initialize(connection)
            self._asked = True


@contextmanager
def compiled_once() -> Iterator[None]:
    """Stores on SQLite share the statements that they have compiled, as the threads of a program do: to compile one
    takes ten times as long as to run it. Engines of others, such as Airflow's, are as ever."""
    compiled: dict[Any, Any] = {}

    def create_engine(url: sa.URL, **settings: Any) -> sa.Engine:
        if url.get_backend_name() != "sqlite":
            return sa.create_engine(url, **settings)
        engine = sa.create_engine(url.set(drivername="sqlite+once"), **settings)
        engine.update_execution_options(compiled_cache=compiled)
        return engine

    registry.register("sqlite.once", __name__, OneDialect.__name__)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "sa", SimpleNamespace(**{**vars(sa), "create_engine": create_engine}))
        yield
