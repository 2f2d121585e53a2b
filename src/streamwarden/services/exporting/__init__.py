"""Exports the streams' state to other systems: metrics for Prometheus."""
