"""Sessions and their JVM: what it answers, whether it runs, what it loads.

Needs `SparkContext`, its `SparkConf`, `SparkEnv` and the status tracker of Spark's core, `StateStore.stop`,
`Utils.classForName`, and the variables with which spark-submit tells PySpark how to reach its JVM.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError

ANSWER_WITHIN: Final = 10.0
"""Seconds that one question to `jvm_clock` waits; then it is asked again on a new connection."""

JVM_ERRORS: Final = (Py4JError, OSError)
"""The exceptions of a call into a JVM that refuses it, is going down, or has ended."""


def is_refusal(error: BaseException | None) -> bool:
    """Whether the JVM did not take a call, or did not answer it. What its code raised is an answer."""
    return isinstance(error, JVM_ERRORS) and not isinstance(error, Py4JJavaError)


def jvm_clock(environ: Mapping[str, str] = os.environ) -> Callable[[], object]:
    """A question to the JVM that started this process, on a connection that nothing else uses: what time it is.

    It needs no Spark session, so a driver that is still starting is asked too.
    """
    parameters = GatewayParameters(
        port=int(environ["PYSPARK_GATEWAY_PORT"]),
        auth_token=environ["PYSPARK_GATEWAY_SECRET"],
        read_timeout=ANSWER_WITHIN,
    )
    gateway: Any = JavaGateway(gateway_parameters=parameters)
    return lambda: gateway.jvm.System.currentTimeMillis()


def is_same_session(one: Any, other: Any) -> bool:
    """Whether two sessions of PySpark are one session of the JVM."""
    return bool(one._jsparkSession.equals(other._jsparkSession))


def is_stopped(session: Any) -> bool:
    """Whether the context has ended. If the JVM is gone, a ConnectionRefusedError or a Py4JError is raised."""
    return bool(session.sparkContext._jsc.sc().isStopped())


def executor_count(session: Any) -> int:
    """Number of registered executors, without the driver."""
    return len(session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1


def stop_state_stores(session: Any) -> None:
    """Unload every state store of this JVM and end its maintenance."""
    session._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


def collect_garbage(session: Any) -> None:
    """Let the JVM give back what it no longer needs."""
    session._jvm.System.gc()


def loaded_class(session: Any, name: str) -> Any:
    """The Java class, uninitialized. Raises LookupError with the JVM's exception if it cannot be loaded."""
    try:
        return session._jvm.org.apache.spark.util.Utils.classForName(name, False, False)
    except Py4JJavaError as error:
        raise LookupError(str(error.java_exception)) from error


def adapt_session(session: Any, settings: Mapping[str, str], others: Iterable[str]) -> None:
    """Give an open session the settings of another stream, which its new sessions have too; `others` get Spark's
    default. Only settings that Spark lets a session change: for any other an exception of Spark is raised."""
    conf = session.sparkContext._conf  # that of the JVM, from which each new session begins
    for key, value in settings.items():
        conf.set(key, value)
        session.conf.set(key, value)
    for key in others:
        conf._jconf.remove(key)
        session.conf.unset(key)


def adapt_defaults(session: Any, settings: Mapping[str, str], others: Iterable[str]) -> None:
    """Give the session that is opened next in this JVM the settings of another stream."""
    for key, value in settings.items():
        session._jvm.System.setProperty(key, value)
    for key in others:
        session._jvm.System.clearProperty(key)
