"""Integration with Apache Airflow: operators, triggers, DAG builders, the plugin."""
