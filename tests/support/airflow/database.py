"""Airflow's own metadata database, in a file, for tests that ask what Airflow makes of a DAG. No component runs.

Airflow binds its settings when it is imported, so the code runs in a process of its own (`run_with_database`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_BEFORE = """
import json
from airflow import settings
settings.initialize()
from airflow.models import import_all_models
from airflow.models.base import Base
import_all_models()
Base.metadata.create_all(settings.engine)
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.db import synchronize_log_template
from airflow.utils.session import create_session
synchronize_log_template()
with create_session() as session:
    session.add(DagBundleModel(name="dags-folder"))
bag = DagBag(dag_folder=DAGS)
assert not bag.import_errors, bag.import_errors
sync_bag_to_db(bag, "dags-folder", None)
"""


def run_with_database(code: str, home: Path, project: Path, **settings: str) -> Any:
    """Run `code` where every DAG of `project` is stored as the DAG processor stores it; its variable `result`.

    Args:
        home: an empty folder for Airflow.
        settings: of Airflow, as `CORE__PARALLELISM="3"`.
    """
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "STREAMWARDEN"))},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        **{f"AIRFLOW__{key}": value for key, value in settings.items()},
        "STREAMWARDEN_PROJECT": str(project),
    }
    program = f"DAGS = {str(project / 'dags')!r}\n{_BEFORE}\n{code}\nprint('RESULT' + json.dumps(result))"
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-4000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    return json.loads(line.removeprefix("RESULT"))
