"""DAGs that change a state by a key that Airflow must not learn."""
