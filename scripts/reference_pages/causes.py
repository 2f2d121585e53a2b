"""The reference page of the causes of failures, from the table of causes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamwarden.lifecycle.failures.causes import CAUSES
from streamwarden.lifecycle.failures.failure_patterns import Cause

_HEAD: Final = """\
# Why a driver ended, and what a restart can do about it

When a driver fails, Streamwarden reads the whole chain of exceptions, in Python and in the JVM, and compares it with
this table from top to bottom. The first row that fits decides, whatever the sink is: files, a topic, a database, or a
function of `foreachBatch` in a script. The exit record stores the code of that row as `cause`.

- **Restarted**: the stream is started again after its back-off, within its `restart.budget`.
- **Stays down**: a restart would fail in the same way. The stream waits for a person; the incident *Restart loop*
  contains the next step.
- **No row fits**: the stream is restarted, whether or not its query had started. A service that it needs may be
  unavailable, and the budget limits what the attempts cost.

If the cause is not known and the stream runs on a standalone cluster or on Kubernetes, the driver also probes the
master or the API server, and names it if it does not answer. A standalone master that was restarted without recovery
(`spark.deploy.recoveryMode`) no longer knows the application: the driver notices that it has no executor left and that
the master does not know it, and ends, so that the next driver registers with the new master. Something other than the
job may stop the SparkContext: the cluster, if somebody kills the application or too many of its executors fail; on any
master Spark itself, when its scheduler fails. The driver notices it within about ten seconds and ends, whether or not a
batch runs.

"""


def page() -> str:
    """The whole page, in Markdown."""
    return _HEAD + "\n".join(_rows()) + "\n"


def _rows() -> Iterator[str]:
    yield "| cause | code | decision | next step | recognised by |"
    yield "|---|---|---|---|---|"
    for cause in CAUSES:
        signs = ", ".join(str(sign).replace("|", "\\|") for sign in cause.signs)
        yield f"| {cause.what} | `{cause.code}` | {_decision(cause)} | {cause.next_step} | {signs} |"


def _decision(cause: Cause) -> str:
    if cause.fenced:
        return "restarted, outside the budget: another driver writes"
    if cause.before_start:
        return "stays down, if the query had not started"
    return "restarted" if cause.curable else "stays down"
