"""One Airflow DAG per file in `config/drills/`."""

from streamwarden.airflow.dags.drills import drill_dags

globals().update(drill_dags(__file__))
