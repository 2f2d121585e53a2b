"""The programs that Spark starts."""
