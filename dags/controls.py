"""The DAGs stop_stream, restart_stream and start_stream."""

from streamwarden.airflow.dags.controls import control_dags

globals().update(control_dags(__file__))
