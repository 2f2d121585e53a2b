"""One DAG for each stream that declares when it is audited."""

from streamwarden.airflow.dags.audits import audit_dags

globals().update(audit_dags(__file__))
