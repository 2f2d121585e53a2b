"""The DAG that judges once a day what the settings of each stream cost."""

from streamwarden.airflow.dags.advice import advice_dags

globals().update(advice_dags(__file__))
