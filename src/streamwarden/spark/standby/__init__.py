"""The side of a warm standby in Spark's processes: the one that waits, and the driver that keeps it."""
