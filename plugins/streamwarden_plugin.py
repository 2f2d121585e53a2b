"""Registers Streamwarden's pages and links with Airflow."""

from streamwarden.airflow.plugin import StreamwardenPlugin

__all__ = ["StreamwardenPlugin"]
