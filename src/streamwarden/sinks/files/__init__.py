"""What the kinds of sink share that write files with Spark's exactly-once file sink."""
