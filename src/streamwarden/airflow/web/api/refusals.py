"""The answer to a request that is refused: an error with four parts, as every other error of Streamwarden."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError

from streamwarden.errors import StreamwardenError
from streamwarden.redaction import redacted_text
from streamwarden.services.overview.models import Model


class Refusal(Model):
    """Reason why a request was refused, as plain text. A page that shows it has to escape it."""

    detail: str
    """the four parts in one sentence"""
    observed: str = ""
    expected: str = ""
    """what is allowed; empty if nothing is"""
    where: str = ""
    next_step: str = ""
    """what to do next; empty if nothing helps"""


_REFUSALS: Final = {
    401: "no user is logged in",
    403: "the user may not read or do it",
    404: "there is no such stream, query, run or incident",
    409: "the DAG that would do it is paused, or does it already",
    422: "a parameter is unknown, or has a value that it cannot have",
    503: "the store does not answer",
}
REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Refusal, "description": why} for status, why in _REFUSALS.items()
}
"""Error responses of every operation, for the OpenAPI document."""


class Refused(HTTPException):
    """A request that is refused with an error of four parts."""

    def __init__(self, status: int, error: StreamwardenError) -> None:
        super().__init__(status, redacted_text(str(error)))
        self.error = error


def refusal_of(error: Exception) -> Refusal:
    """What a program reads of any error."""
    if isinstance(error, Refused):
        return _of_parts(error.error)
    if isinstance(error, StreamwardenError):
        return _of_parts(error)
    if isinstance(error, RequestValidationError):
        said = _said(error.errors())
        return Refusal(detail=said, observed=said, next_step="see the operation in /streamwarden/api/v1/docs")
    said = str(error.detail) if isinstance(error, HTTPException) else "error"
    return Refusal(detail=said, observed=said)


def _of_parts(error: StreamwardenError) -> Refusal:
    names = ("observed", "expected", "where", "next_step")
    return Refusal(detail=redacted_text(str(error)), **{name: redacted_text(getattr(error, name)) for name in names})


def _said(problems: Sequence[Any]) -> str:
    """`query.limit: Input should be less than or equal to 1000`, for each value that is wrong."""
    return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
