"""Unpauses DAGs, each as soon as Airflow has it: once for each file MARK. A DAG that a user pauses later stays paused.

    python first_run.py MARK DAG...

One process asks Airflow's database until all are there. Each start of the command `airflow` takes seconds of the
processor, which the first start of everything else needs more.
"""

import sys
import time
from pathlib import Path

from airflow.models.dag import DagModel
from airflow.utils.session import create_session


def unpause(dag_id: str) -> bool:
    """Unpause the DAG; False if Airflow does not have it yet."""
    with create_session() as session:
        dag = session.get(DagModel, dag_id)
        if dag is not None:
            dag.is_paused = False
        return dag is not None


def main(mark: Path, *dag_ids: str) -> None:
    """Unpause each of the DAGs and write the mark, unless it is there."""
    for dag_id in () if mark.exists() else dag_ids:
        while not unpause(dag_id):
            time.sleep(2)
        print(f"unpaused {dag_id}", flush=True)
    mark.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
