"""Rewrites the state of a checkpoint through Spark's own `StateRewriter`.

Needs `StateRewriter` with its parameters, a Scala function in Python over Py4J's callback server, the options of the
relation that it hands to the function, and the rows `partition_key`, `key_bytes`, `value_bytes`, `column_family_name`.

It reads one checkpoint and writes into another one, which has the same logs, the operators' metadata and schemas, and
no state. The batch stays the same: no batch is added that the output would lack. The state that it writes is a
snapshot in each partition.
"""

from collections.abc import Callable
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from streamwarden.spark.internals.classic import frame_around
from streamwarden.spark.internals.plans import analyzed

Change = Callable[[int, str, DataFrame], DataFrame]
"""Operator, store and its rows -> the rows that it is to have, in the same columns and partitions."""

Ids = dict[str, list[list[str]]]


class _Function:
    """A `Function1[Dataset, Dataset]` that remembers what a call raised."""

    class Java:
        implements = ["scala.Function1"]  # noqa: RUF012 Py4J reads it so

    def __init__(self, session: SparkSession, change: Change) -> None:
        self._session, self._change = session, change
        self.raised: Exception | None = None

    def apply(self, rows: Any) -> Any:
        frame = frame_around(rows, self._session)
        given = analyzed(frame).options()
        try:
            return self._change(int(given.get("operatorId")), str(given.get("storeName")), frame)._jdf
        except Exception as error:
            self.raised = error
            raise


def rewrite_state(session: Any, *, read: str, write: str, batch: int, change: Change) -> Ids:
    """Write the state of `read` after `batch` into `write`; returns the unique ids of checkpoint format 2, else none.

    Raises whatever `change` raises, Py4JJavaError.
    """
    ensure_callback_server_started(session.sparkContext._gateway)
    jvm, function = session._jvm, _Function(session, change)
    option = jvm.scala.Option
    rewriter = jvm.org.apache.spark.sql.execution.streaming.state.StateRewriter(
        session._jsparkSession,
        batch,
        batch,
        write,
        session._jsparkSession.sessionState().newHadoopConf(),
        option.apply(read),
        option.apply(function),
        option.empty(),
    )
    try:
        return _ids(rewriter.run())
    except Exception:
        if function.raised is not None:
            raise function.raised from None
        raise


def _ids(found: Any) -> Ids:
    made: Ids = {}
    pairs = found.get().iterator() if found.isDefined() else None
    while pairs is not None and pairs.hasNext():
        pair = pairs.next()
        made[str(pair._1())] = [[str(name) for name in partition] for partition in pair._2()]
    return made
