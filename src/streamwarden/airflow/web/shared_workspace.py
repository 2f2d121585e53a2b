"""The workspace that this API server shows."""

from functools import lru_cache
from typing import Annotated

from fastapi import Depends

from streamwarden.services.overview.catalogs import CatalogCache
from streamwarden.services.workspace import Workspace


@lru_cache(maxsize=1)
def opened() -> Workspace:
    """The workspace of this server, opened once in each process. Raises StreamwardenError if there is none."""
    from streamwarden.airflow.projects import plugin_project

    return Workspace.open(project=plugin_project())


@lru_cache(maxsize=1)
def catalogs() -> CatalogCache:
    """The files of this server's project, kept for all requests."""
    return CatalogCache()


SpaceDep = Annotated[Workspace, Depends(opened)]
