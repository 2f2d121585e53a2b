"""The reference page of connections; its table lists the kinds of source and sink that need one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamwarden.config.kinds import SIDES

_HEAD: Final = """\
# Connections

A stream's file names a connection. Host, user and password are not in the file.

    source: {kind: kafka, connection: events_broker, topic: events}
    sink: {kind: postgresql, connection: warehouse, table: web.event_windows}
    storage: {connection: lake}    # for paths that begin with s3a://

"""

_TAIL: Final = """
It is the Airflow connection of that id, wherever Airflow keeps it: `airflow connections add`, Admin > Connections, a
secrets backend, the environment. Streamwarden's DAGs pass it to the drivers that they start, in the environment
variable `AIRFLOW_CONN_NAME` (the name in capitals). For the command line without Airflow, set that variable yourself,
in either of Airflow's forms:

    export AIRFLOW_CONN_WAREHOUSE='postgresql://ann:p%40ss@db.example:5432/flights'
    export AIRFLOW_CONN_WAREHOUSE='{"conn_type": "postgres", "host": "db.example", "login": "ann", "password": "p@ss"}'

No password reaches a log line, the driver's folder, its arguments or a journal. An error names the connection and never
shows its value. See [where secrets go](../explanation/security.md).
"""


def page() -> str:
    """The whole page, in Markdown."""
    return _HEAD + "\n".join(_rows()) + "\n" + _TAIL


def _rows() -> Iterator[str]:
    yield "| key | for | connects to |"
    yield "|---|---|---|"
    for side, kinds in SIDES.items():
        for name, kind in kinds.items():
            if kind.SERVICE is not None:
                yield f"| `{side}.connection` | `kind: {name}` | the {kind.SERVICE} |"
    yield "| `storage.connection` | paths that begin with `s3a://` | the object store |"
    yield "| `spark.connection` | streams that a DAG starts on a cluster | the cluster: master, queue, Kerberos key |"
