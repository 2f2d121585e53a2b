"""The DAGs look_at_state, restore_stream and verify_savepoint."""

from streamwarden.airflow.dags.state.dags import state_dags

globals().update(state_dags(__file__))
