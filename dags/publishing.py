"""The DAG that publishes the progress of streams as asset events."""

from streamwarden.airflow.dags.publishing import publishing_dags

globals().update(publishing_dags(__file__))
