"""Every call into private Spark or Py4J stands in this package: to support a new Spark version is to go through it.

A test asserts that no other module reads a private attribute of PySpark or imports py4j. Each module says what it needs
of Spark's own classes. What an audit reads in Spark's plans (the names of operators and expressions) is in
`spark.audit.plan`.
"""

from typing import Final

PROVEN_ON: Final = ("4.3.0",)
"""Versions of Spark on which the tests have proven every call of this package."""
