"""One bounded GET request. No message and no log line shows the URL: it may hold a secret."""

import logging
import urllib.request
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError, URLError

TIMEOUT: Final = 5.0
"""Seconds for connecting, and for each part of the answer."""

LARGEST: Final = 64 * 1024
"""Bytes of an answer that are read."""

_log = logging.getLogger(__name__)


def get(url: str, *, timeout: float = TIMEOUT) -> bytes:
    """The answer of an HTTP server. Raises OSError, with a short text, if it refuses or does not answer.

    The caller has checked that `url` begins with http:// or https://.
    """
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:  # noqa: S310  only HTTP, see above
            return bytes(answer.read(LARGEST))
    except HTTPError as error:
        raise OSError(f"it answered {error.code}") from None
    except (URLError, HTTPException, ValueError, TimeoutError, ConnectionError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        raise OSError(f"it does not answer ({type(cause).__name__})") from None


def ping(url: str) -> bool:
    """Request the dead man's switch: an outside service that alerts when the requests stop. Returns whether it accepted
    the request."""
    try:
        get(url)
    except OSError as error:
        _log.warning("the service of heartbeat_url did not accept the heartbeat: %s", error)
        return False
    return True
