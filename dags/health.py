"""The DAG that checks every stream each minute."""

from streamwarden.airflow.dags.health import health_dags

globals().update(health_dags(__file__))
