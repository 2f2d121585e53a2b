"""One DAG for each stream that declares when savepoints are taken."""

from streamwarden.airflow.dags.state.savepoints import savepoint_dags

globals().update(savepoint_dags(__file__))
