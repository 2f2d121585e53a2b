"""The DAGs of this folder."""

from airflow.sdk import DAG

from streamwarden.airflow.dags.state.looking import look_dag
from streamwarden.airflow.dags.state.restoring import restore_dag
from streamwarden.airflow.dags.state.verifying import verify_dag
from streamwarden.airflow.projects import project_of


def state_dags(dag_file: str) -> dict[str, DAG]:
    """`look_at_state`, `restore_stream`, `verify_savepoint`."""
    project = project_of(dag_file)
    return {dag.dag_id: dag for dag in (look_dag(project), restore_dag(project), verify_dag(project))}
