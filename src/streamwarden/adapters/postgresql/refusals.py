"""Words that identify a PostgreSQL server which refuses all users, in lower case: regular expressions.

A failed attempt to connect has no SQLSTATE in libpq: its text is all there is.
"""

import re
from collections.abc import Iterable
from typing import Final

NOT_LET_IN: Final = ("password authentication failed", "no pg_hba.conf entry", 'role ".*" does not exist')
NO_DATABASE: Final = ('database ".*" does not exist',)
NAME_UNKNOWN: Final = (
    "could not translate host name",
    "failed to resolve host",
    "name or service not known",
    "temporary failure in name resolution",
)
UNREACHABLE: Final = (
    "connection refused",
    "could not translate host name",
    "name or service not known",
    "timeout expired",
)


def found(signs: Iterable[str], text: str) -> bool:
    """Whether one of the signs is in `text`."""
    return any(re.search(sign, text.lower()) for sign in signs)
