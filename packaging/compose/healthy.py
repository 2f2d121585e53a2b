"""Ends with 0 if a page answers and, where a COMPONENT is given, says that this is healthy.

    python -I -S healthy.py HOST:PORT/PATH [COMPONENT]

Docker runs it every few seconds in each container. It imports little, so that it takes hundredths of a second. A start
of `airflow jobs check` takes several seconds of the processor. Airflow's triggerer and DAG processor have no page of
their own. The API server tells from their heartbeats in the database how they are.
"""

import sys
from http.client import HTTPConnection
from json import loads


def healthy(address: str, component: str | None = None) -> bool:
    """Whether the page at `address` answers with status 200, and its JSON calls `component` healthy."""
    server, _, path = address.partition("/")
    connection = HTTPConnection(server, timeout=5)
    connection.request("GET", f"/{path}")
    answer = connection.getresponse()
    if answer.status != 200:
        return False
    return component is None or loads(answer.read())[component]["status"] == "healthy"


if __name__ == "__main__":
    sys.exit(not healthy(*sys.argv[1:]))
