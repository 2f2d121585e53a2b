"""The DAG that keeps the progress store small."""

from streamwarden.airflow.dags.housekeeping import housekeeping_dags

globals().update(housekeeping_dags(__file__))
