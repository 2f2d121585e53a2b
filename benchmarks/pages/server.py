"""Serves the plugin's app as Airflow mounts it, without the rest of Airflow: `python server.py PORT FILE`.

Writes a token of a viewer into the file, then serves until it is ended.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Make Airflow's tables, write the token, serve."""
    import uvicorn
    from airflow import settings
    from airflow.api_fastapi.app import get_auth_manager, init_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from fastapi import FastAPI
    from fastapi.middleware.gzip import GZipMiddleware

    from streamwarden.airflow.links import PAGES
    from streamwarden.airflow.web.app import build_app

    settings.configure_orm()  # type: ignore[no-untyped-call]
    import_all_models()  # type: ignore[no-untyped-call]
    Base.metadata.create_all(settings.engine)
    init_auth_manager()
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ann", role="VIEWER"))
    Path(sys.argv[2]).write_text(f"{token}\n")
    app = FastAPI()
    app.mount(PAGES, build_app())
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)  # as Airflow
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")


if __name__ == "__main__":
    main()
