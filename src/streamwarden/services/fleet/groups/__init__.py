"""Groups: the JVM that small streams share, how a driver finds or starts it, and how the driver leaves it."""
