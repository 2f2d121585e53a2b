"""The plugin's app as Airflow mounts it, with Airflow's simple auth manager and real tokens, over a filled store."""

from __future__ import annotations

import gc
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from streamwarden.services.workspace import Workspace
from support.airflow.project import make_project


@contextmanager
def served(root: Path, fill: Callable[[Workspace], None], *, base: str = "") -> Iterator[TestClient]:
    """The app over the project `root/project` and the data `root/data`.

    Args:
        fill: adds files to the project and rows to the store, before the app is asked for the first time.
        base: the path of `[api] base_url`, under which a proxy serves Airflow.
    """
    patch = pytest.MonkeyPatch()
    project = make_project(root / "project")
    for key, value in {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "ann:viewer",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{root / 'airflow.db'}",
        "STREAMWARDEN_PROJECT": str(project),
        "STREAMWARDEN_DATA": str(root / "data"),
    }.items():
        patch.setenv(key, value)
    from airflow import settings
    from airflow.api_fastapi.app import init_auth_manager
    from airflow.models import import_all_models
    from airflow.models.base import Base

    from streamwarden.airflow.links import PAGES
    from streamwarden.airflow.web import readable_drills, row_cache, shared_workspace
    from streamwarden.airflow.web.app import build_app

    _connect_airflow()
    import_all_models()
    Base.metadata.create_all(settings.engine)
    init_auth_manager()
    kept = (
        shared_workspace.opened,
        shared_workspace.catalogs,
        row_cache.board,
        row_cache.settle,
        readable_drills.matrix,
    )
    _forget(*kept)
    fill(shared_workspace.opened())
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.mount(f"{base}{PAGES}", build_app())
    try:
        yield TestClient(app, raise_server_exceptions=False)
    finally:
        shared_workspace.opened().close()
        _forget(*kept)
        gc.unfreeze()
        patch.undo()
        _connect_airflow()


def _connect_airflow() -> None:
    """Use the database that Airflow's settings name now."""
    from airflow import settings

    settings.configure_vars()
    settings.configure_orm()


def _forget(*kept: Callable[[], object]) -> None:
    for each in kept:
        each.cache_clear()  # type: ignore[attr-defined]


def token(role: str | None) -> str:
    """A token as Airflow issues it, for a user of this role; None: a user who may do nothing."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    return str(get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ann", role=role)))


def bearer(role: str | None) -> dict[str, str]:
    """The header of a request by a user of this role."""
    return {"Authorization": f"Bearer {token(role)}"}
