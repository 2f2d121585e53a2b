"""The DAGs with a form that look at a state, verify a savepoint, or change a stream after an approval."""

from streamwarden.airflow.dags.state.dags import state_dags

globals().update(state_dags(__file__))
