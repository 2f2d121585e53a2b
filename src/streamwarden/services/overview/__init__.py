"""What people are shown of the fleet: in a shell, on the pages in Airflow, and by the API."""
