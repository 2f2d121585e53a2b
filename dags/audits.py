"""One DAG for each stream that declares when it is audited."""

from streamwarden.airflow.audits import audit_dags

globals().update(audit_dags(__file__))
