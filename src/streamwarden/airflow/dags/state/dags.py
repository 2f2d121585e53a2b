"""The DAGs of this folder."""

from typing import Final

from airflow.sdk import DAG

from streamwarden.airflow.dags.state.changes import change_dag
from streamwarden.airflow.dags.state.compacting import Compaction
from streamwarden.airflow.dags.state.creating import create_dag
from streamwarden.airflow.dags.state.looking import look_dag
from streamwarden.airflow.dags.state.operations import Operation
from streamwarden.airflow.dags.state.private.assigning import ValueAssignment
from streamwarden.airflow.dags.state.private.deleting import KeyDeletion
from streamwarden.airflow.dags.state.repartitioning import Repartition
from streamwarden.airflow.dags.state.restoring import Restore
from streamwarden.airflow.dags.state.rewinding import Rewind
from streamwarden.airflow.dags.state.upgrading import Upgrade
from streamwarden.airflow.dags.state.verifying import verify_dag
from streamwarden.airflow.projects import project_of

OPERATIONS: Final[tuple[Operation, ...]] = (
    *(Restore(), Rewind(), Repartition(), Compaction(), Upgrade()),
    *(KeyDeletion(), ValueAssignment()),
)
"""Those that change a stream: each has a DAG with an approval."""


def state_dags(dag_file: str) -> dict[str, DAG]:
    """`create_savepoint`, `verify_savepoint`, `look_at_state`, and a DAG for each operation."""
    project = project_of(dag_file)
    changes = (change_dag(project, operation) for operation in OPERATIONS)
    return {dag.dag_id: dag for dag in (create_dag(project), verify_dag(project), look_dag(project), *changes)}
