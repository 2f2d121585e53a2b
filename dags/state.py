"""The DAGs with a form that take or verify a savepoint, look at a state, or change a stream after an approval."""

from streamwarden.airflow.dags.state.dags import state_dags

globals().update(state_dags(__file__))
