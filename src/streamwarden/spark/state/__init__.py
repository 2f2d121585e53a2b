"""Reads the state of a query through Spark's own reader, for audits and for looks at it."""
