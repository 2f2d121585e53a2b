"""The view of the fleet for people: in a shell, on the pages in Airflow, and by the API."""
