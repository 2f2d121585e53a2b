"""Several Python processes in one JVM, each with a gateway, a secret and a Spark session of its own.

Needs Py4J's `ClientServerBuilder`, as Spark's own gateway does; of PySpark, `SparkContext(jsc=…)` and
`SparkSession(jsparkSession=…)`; of Spark, `newSession`, `SharedState.activeStreamingQueries` and the field
`listenerBus` of a session's `StreamingQueryManager`. Read from Spark 4.3.0 and Py4J 0.10.9.9.
"""

import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.errors import ConfigError, JobError
from streamwarden.lifecycle.location import same_place
from streamwarden.spark.internals.fields import field_of
from streamwarden.spark.internals.hooks import around
from streamwarden.units import Seconds


@dataclass(frozen=True, slots=True)
class Gateway:
    """A way into this JVM for one other Python process. Its callbacks, its objects and its session are that process's.

    Args:
        session: the Java session that the process finds as the gateway's entry point.
    """

    port: int
    secret: str
    session: Any
    _server: Any

    def end_queries(self, checkpoint: str, within: Seconds) -> bool:
        """Stop the queries of the process, also in the middle of a batch; False if one still runs after `within`."""
        deadline = time.monotonic() + within
        while queries := list(_queries(self.session, checkpoint)):
            if time.monotonic() > deadline:
                return False
            for query in queries:
                with contextlib.suppress(Py4JError):  # it does not stop in time: the next turn tries again
                    query.stop()
        return True

    def close(self) -> None:
        """Forget the process: its objects, its listeners and its port."""
        with contextlib.suppress(Py4JError):
            bus = self.session.sparkContext().listenerBus()
            bus.removeListener(field_of(self.session.streams(), "listenerBus"))
        with contextlib.suppress(Py4JError):
            self._server.shutdown()


def open_gateway(session: Any) -> Gateway:
    """A gateway for another process, with a new session of this JVM's SparkContext.

    Args:
        session: a session of this process.
    """
    jvm, own, secret = session._jvm, session._jsparkSession.newSession(), secrets.token_hex(32)
    builder = jvm.py4j.ClientServer.ClientServerBuilder(own).authToken(secret).javaPort(0)
    server = builder.javaAddress(jvm.java.net.InetAddress.getByName("127.0.0.1")).build()
    server.startServer()
    return Gateway(int(server.getJavaServer().getListeningPort()), secret, own, server)


def _queries(session: Any, checkpoint: str) -> Iterator[Any]:
    """The running queries of the session, and each one with this checkpoint, in whatever session of the JVM."""
    for query in list(session.sharedState().activeStreamingQueries().values()):
        if query is None or not query.isActive():
            continue
        place = to_path(str(query.resolvedCheckpointRoot())).rstrip("/")
        if query.sparkSession().equals(session) or same_place(place, checkpoint):
            yield query


def join_session(environment: Mapping[str, str], settings: Mapping[str, str], properties: Mapping[str, str]) -> Any:
    """The session that this process got with its gateway, which PySpark finds in the environment as spark-submit's.

    Args:
        environment: of this process's Python workers.
        settings: of the session. Raises ConfigError for one that only a JVM as a whole can have.
        properties: of this thread, and of the queries that it starts.
    """
    SparkContext._ensure_initialized()
    gateway: Any = SparkContext._gateway
    own = gateway.entry_point
    shared = gateway.jvm.JavaSparkContext.fromSparkContext(own.sparkContext())
    conf = SparkConf(_jconf=shared.getConf())
    context = SparkContext(conf=conf, jsc=shared, gateway=gateway, environment=dict(environment))
    for name, value in properties.items():
        context.setLocalProperty(name, value)
    session = SparkSession(context, jsparkSession=own)
    for name, value in settings.items():
        _set(session, name, value)
    around(SparkContext, "stop", _keep)
    return session


def _set(session: Any, name: str, value: str) -> None:
    try:
        session.conf.set(name, value)
    except PySparkException as error:
        if session.conf.get(name, None) == value:
            return
        raise ConfigError(
            f"{value!r}, and {session.conf.get(name, None)!r} in the JVM of the group: {error}",
            expected="a setting that a session can have for itself",
            where=name,
            next_step="remove it from the spark.conf of the stream, or remove `group`",
        ) from error


def _keep(stop: Any, context: Any) -> None:
    """What a call of `SparkContext.stop` does instead."""
    raise JobError(
        "the job stops Spark",
        expected="a job that leaves Spark to its driver: the other streams of the group run in the same JVM",
        where="SparkContext.stop",
        next_step="remove the call, or remove `group` from the stream's file",
    )
