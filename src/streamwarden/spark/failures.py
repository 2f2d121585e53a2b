"""What a job or a query raised, as an error class and a short message with the job's file and line."""

from __future__ import annotations

import re
import traceback
from typing import Any

from streamwarden.errors import JobError, StreamwardenError

_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]{3,}(?:\.[A-Z0-9_]+)?)\]")
_WRAPPERS = frozenset({"STREAM_FAILED", "FAILED_EXECUTE_UDF", "INTERNAL_ERROR"})
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_PYTHON_ERROR = re.compile(r"^\s*((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)): ?(.*)$", re.MULTILINE)


def describe(error: BaseException, job: str) -> tuple[str, str]:
    """Error class and message of `error`, raised by the job or by the query that it built."""
    if isinstance(error, StreamwardenError) and not isinstance(error, JobError):
        return type(error).__name__, str(error)
    text = f"{error}\n{getattr(error, '_stackTrace', '')}"
    spark_class = _condition(error) or ""
    line = next(
        (frame.lineno for frame in reversed(traceback.extract_tb(error.__traceback__)) if frame.filename == job), None
    )
    if isinstance(error, SyntaxError) and error.filename == job:
        line = error.lineno
    if spark_class or _is_spark(error):
        return from_spark(text, spark_class, job, line)
    return type(error).__name__, f"{_place(job, line)}: {type(error).__name__}: {error}"


def from_spark(text: str, given: str | None, job: str, line: int | None = None) -> tuple[str, str]:
    """The same for a message of Spark's, whose innermost cause names the class, and which may hold a worker's
    traceback."""
    classes = [found for found in _CLASS.findall(text) if found not in _WRAPPERS]
    error_class = classes[0] if classes else (given or "STREAM_FAILED")
    frames = [int(number) for file, number in _FRAME.findall(text) if file == job]
    python = _PYTHON_ERROR.findall(text) if "Traceback (most recent call last)" in text else []
    if python:
        name, said = python[-1]
        short = name.rpartition(".")[2]
        if not classes:
            error_class = short
        return error_class, f"{_place(job, frames[-1] if frames else line)}: {short}: {said}"
    said = _what_happened(text)
    return error_class, f"{_place(job, line)}: {said}" if line else said


def _what_happened(text: str) -> str:
    """Spark's message without the query's id, plan and stack, with the root cause first if the message lacks it."""
    message = re.split(r"\n=== Streaming Query ===|\n\s*at |\n+JVM stacktrace:", text)[0]
    found = re.match(r"\[STREAM_FAILED\] Query \[.*?\] terminated with exception: (.*)", message, re.DOTALL)
    message = (found.group(1) if found else message).strip()
    causes = re.findall(r"^Caused by: (.*)$", text, re.MULTILINE)
    root = causes[-1].strip() if causes else ""
    known = root.partition(": ")[2] or root
    return message if not root or known in message else f"{root} ({message})"


def _condition(error: BaseException) -> str | None:
    getter: Any = getattr(error, "getCondition", None)
    if getter is None:
        return None
    try:
        found = getter()
    except Exception:  # the JVM may be gone; the message is what is left
        return None
    return str(found) if found else None


def _is_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark", "py4j"))


def _place(job: str, line: int | None) -> str:
    return f"{job}:{line}" if line else job
