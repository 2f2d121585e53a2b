"""Exceptions of the JVM behind those of PySpark and of py4j.

Needs `_origin` and `_stackTrace` of PySpark's captured exceptions, `PythonErrorUtils` (since 4.1) or
`SparkThrowable` for the condition of an exception that no PySpark exception wraps.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext

from streamwarden.lifecycle.failures.error_chain import Chain, ErrorLink, of_java
from streamwarden.spark.internals.versions import RUNNING

CONDITION: Final = "getCondition" if RUNNING >= (4, 0) else "getErrorClass"
"""The method of `SparkThrowable`, and of PySpark's exceptions, that names the error condition."""

LONGEST_CHAIN: Final = 30
"""Links of one side that are read: a chain may lead back to itself."""

_SAID: Final = 300
"""Characters of an exception's message that are shown."""


def full_text(error: BaseException) -> str:
    """The message, and the JVM's stack trace where the exception has one: it names causes that the message lacks."""
    return f"{error}\n{getattr(error, '_stackTrace', '')}"


def java_exception(error: BaseException | None) -> Any:
    """The JVM's exception behind a Python one: from PySpark, or from py4j where PySpark does not translate it."""
    return getattr(error, "_origin", None) or getattr(error, "java_exception", None)


def java_chain(exception: Any) -> Chain:
    """The chain of an exception of the JVM. If the JVM stops answering, the chain read so far."""
    return tuple(_links(exception))


def said(error: BaseException) -> str:
    """The first line of the exception that caused it, in the JVM if it comes from there."""
    messages = [link.message for link in java_chain(java_exception(error)) if link.message]
    text = (messages[-1] if messages else str(error)).strip().partition("\n")[0]
    return text[:_SAID]


def _links(exception: Any) -> Iterator[ErrorLink]:
    try:
        for _ in range(LONGEST_CHAIN):
            if exception is None:
                return
            kind, message = str(exception.getClass().getName()), str(exception.getMessage() or "")
            frames = tuple(str(frame.getClassName()) for frame in exception.getStackTrace())
            yield from of_java(kind, message, _java_condition(exception), frames)
            exception = exception.getCause()
    except Exception:  # the JVM may be gone: py4j has many ways to say so
        return


def _java_condition(exception: Any) -> str | None:
    if not is_instance_of(SparkContext._gateway, exception, "org.apache.spark.SparkThrowable"):
        return None
    condition = _condition_getter(exception)()
    return str(condition) if condition else None


def _condition_getter(exception: Any) -> Any:
    """Since 4.1 Spark has a class that asks, since py4j cannot call a method of every exception's class."""
    if RUNNING >= (4, 1):
        jvm: Any = SparkContext._jvm
        return partial(jvm.PythonErrorUtils.getCondition, exception)
    return getattr(exception, CONDITION)


def condition_of(error: BaseException) -> str | None:
    """Spark's error condition; None of another error, or if the JVM has ended."""
    condition = _asked(error, CONDITION)
    return str(condition) if condition else None


def parameters_of(error: BaseException) -> Mapping[str, str]:
    """The parameters of Spark's message; none of another error, or if the JVM has ended."""
    return _asked(error, "getMessageParameters") or {}


def _asked(error: BaseException, name: str) -> Any:
    getter: Any = getattr(error, name, None)
    try:
        return None if getter is None else getter()
    except Exception:  # the JVM may be gone: py4j has many ways to say so
        return None


def is_spark(error: BaseException) -> bool:
    """Whether PySpark or py4j raised it."""
    return type(error).__module__.startswith(("pyspark", "py4j"))
