"""Describes what a job or a query raised: error class, a short message with the job's line, and the chain of causes.

The chain is read from the exception objects, in Python and in the JVM, whatever the sink. A query whose sink is a
function of foreachBatch ends with no more than the text of what the function raised: `behind` is that exception itself
(see `streamwarden.spark.driver.foreach_errors`).
"""

import re
import traceback
from collections.abc import Iterator
from typing import Final

from streamwarden.errors import JobError, StreamwardenError
from streamwarden.lifecycle.failures.error_chain import (
    CONDITION,
    PYTHON_ERROR,
    TRACEBACK,
    Chain,
    ErrorLink,
    chain_of_text,
    same_class,
)
from streamwarden.spark.internals.exceptions import (
    LONGEST_CHAIN,
    condition_of,
    full_text,
    is_spark,
    java_chain,
    java_exception,
    parameters_of,
)

_WRAPPERS = frozenset({"STREAM_FAILED", "FAILED_EXECUTE_UDF", "INTERNAL_ERROR"})
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')

_OF_FUNCTION: Final = "FOREACH_BATCH_USER_FUNCTION_ERROR"
_CALLBACK: Final = "py4j.Py4JException"


def describe(error: BaseException, job: str, behind: BaseException | None = None) -> tuple[str, str]:
    """Error class and message of `error`, raised by the job or by the query that it built."""
    if behind is not None and says_more(behind):
        return describe(behind, job)
    if isinstance(error, StreamwardenError) and not isinstance(error, JobError):
        return type(error).__name__, str(error)
    text = full_text(error)
    spark_class = condition_of(error) or ""
    line = next(
        (frame.lineno for frame in reversed(traceback.extract_tb(error.__traceback__)) if frame.filename == job), None
    )
    if isinstance(error, SyntaxError) and error.filename == job:
        line = error.lineno
    if spark_class or is_spark(error):
        return from_spark(text, spark_class, job, line)
    return type(error).__name__, f"{_place(job, line)}: {type(error).__name__}: {error}"


def says_more(behind: BaseException) -> bool:
    """Whether an exception of a foreachBatch function says more than the text that Spark makes of it: true for one of
    Streamwarden's or Spark's. Of a job's own exception Spark passes on the traceback, with the job's line."""
    return isinstance(behind, StreamwardenError) or java_exception(behind) is not None


def from_spark(text: str, given: str | None, job: str, line: int | None = None) -> tuple[str, str]:
    """The same for a message of Spark's, whose innermost cause names the class, and which may hold a worker's
    traceback."""
    classes = [condition for condition in CONDITION.findall(text) if condition not in _WRAPPERS]
    error_class = classes[0] if classes else (given or "STREAM_FAILED")
    frames = [int(number) for file, number in _FRAME.findall(text) if file == job]
    python = PYTHON_ERROR.findall(text) if TRACEBACK in text else []
    if python:
        name, said = python[-1]
        short = name.rpartition(".")[2]
        if not classes:
            error_class = short
        return error_class, f"{_place(job, frames[-1] if frames else line)}: {short}: {said}"
    said = _what_happened(text)
    return error_class, f"{_place(job, line)}: {said}" if line else said


def chain_of(error: BaseException, behind: BaseException | None = None) -> Chain:
    """The chain of causes of `error`, outermost first; then that of `behind`. Never raises: the JVM may stop
    answering; then the chain read so far is returned."""
    return tuple(link for raised in (error, behind) if raised is not None for link in _python_links(raised))


def is_of_function(chain: Chain) -> bool:
    """Whether a foreachBatch function ended the query."""
    return any(link.condition == _OF_FUNCTION or same_class(_CALLBACK, link.kind) for link in chain)


def run_of(error: BaseException) -> str | None:
    """The run of the query whose end `error`, or what caused it, reports; None if it does not name one."""
    raised: BaseException | None = error
    for _ in range(LONGEST_CHAIN):
        if raised is None:
            return None
        run_id = parameters_of(raised).get("runId")
        if run_id:
            return str(run_id)
        raised = _behind(raised)
    return None


def _python_links(error: BaseException) -> Iterator[ErrorLink]:
    """`raise … from` and what was being handled, as a traceback shows them."""
    raised: BaseException | None = error
    for _ in range(LONGEST_CHAIN):
        if raised is None:
            return
        yield from _links_of(raised)
        raised = _behind(raised)


def _behind(raised: BaseException) -> BaseException | None:
    return raised.__cause__ or (None if raised.__suppress_context__ else raised.__context__)


def _links_of(error: BaseException) -> Iterator[ErrorLink]:
    java = java_exception(error)
    if java is not None:
        yield ErrorLink(kind=_name(type(error)))
        yield from java_chain(java)
        return
    if is_spark(error):  # made of a text, as by `query.exception()`
        yield ErrorLink(kind=_name(type(error)))
        yield from chain_of_text(str(error))
        return
    yield ErrorLink(kind=_name(type(error)), message=str(error))
    if isinstance(error, StreamwardenError):  # each has a row of the table, or none on purpose
        return
    for base in type(error).__mro__[1:]:
        if base not in (Exception, BaseException, object):
            yield ErrorLink(kind=_name(base))


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _what_happened(text: str) -> str:
    """Spark's message without the query's id, plan and stack, with the root cause first if the message lacks it."""
    message = re.split(r"\n=== Streaming Query ===|\n[^\S\n]*at |(?<!\n)\n+JVM stacktrace:", text)[0]
    match = re.match(r"\[STREAM_FAILED\] Query \[.*?\] terminated with exception: (.*)", message, re.DOTALL)
    message = (match.group(1) if match else message).strip()
    message = re.sub(r"^An error occurred while calling \S+\.\n: ", "", message)
    causes = re.findall(r"^Caused by: (.*)$", text, re.MULTILINE)
    root = causes[-1].strip() if causes else ""
    cause = root.partition(": ")[2] or root
    return message if not root or cause in message else f"{root} ({message})"


def _place(job: str, line: int | None) -> str:
    return f"{job}:{line}" if line else job
