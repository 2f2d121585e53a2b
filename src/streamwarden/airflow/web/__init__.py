"""The pages, the API and the metrics that the plugin adds to Airflow's API server."""
