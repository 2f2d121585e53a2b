"""A real Airflow on this machine, without Docker: for a user's project (`streamwarden up`) and for `make demo`.

installation  Airflow and the drivers of one project, from start to end
airflow       Airflow's components: starts them, and starts them again when one ends
api           Airflow's REST API
marked        processes that are found again by a mark in their environment
"""
