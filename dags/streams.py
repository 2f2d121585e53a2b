"""One Airflow DAG per file in `config/streams/`."""

from streamwarden.airflow.dags.streams import stream_dags

globals().update(stream_dags(__file__))
