"""A store for each test of the services, and a workspace with one stream."""

from collections.abc import Iterator

import pytest

from streamwarden.adapters.store import Store
from streamwarden.services.workspace import Workspace
from support.streams.projects import Project


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(store_url, busy_timeout=20) as opened:
        yield opened


@pytest.fixture
def space(project: Project, store_url: str) -> Iterator[Workspace]:
    """A project with the stream `counted`, which has never run."""
    project.stream("counted")
    with Workspace.open(project.root, project.data, store_url, environ={}) as opened:
        yield opened
