"""A stream with a real checkpoint and a savepoint, for the DAGs with a form."""

from __future__ import annotations

import pytest

from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.workspace import Workspace
from support.airflow.change_runs import BATCH
from support.airflow.project import add_stream
from support.checkpoints.recorded import Archives


@pytest.fixture
def saved(space: Workspace, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A savepoint at batch 7 of `counted`, whose query has committed batch 13."""
    path = add_stream(space.project, "counted")
    text = (
        path.read_text().replace("output/counted", "origin/output").replace("checkpoints/counted", "origin/checkpoint")
    )
    path.write_text(text)
    Archives(tmp_path_factory.mktemp("archives")).unpack("spark-4.3.0-changelog", space.data / "origin")
    return create(space.stream("counted"), BATCH, Author(by="cleo", reason="before the *change*")).id
