"""What other systems get to know of the streams: metrics for Prometheus."""
