"""Groups: streams that share one JVM."""
