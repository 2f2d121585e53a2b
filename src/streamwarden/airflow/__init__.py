"""What runs inside Apache Airflow: operators, triggers, DAG builders, the plugin."""
