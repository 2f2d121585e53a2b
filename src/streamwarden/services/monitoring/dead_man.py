"""The dead man's switch: an outside service is called after each evaluation, and alerts when the calls stop."""

import logging

from streamwarden.services.monitoring.http import get

_log = logging.getLogger(__name__)


def ping(url: str) -> bool:
    """Request `url`. Returns whether its service accepted the request."""
    try:
        get(url)
    except OSError as error:
        _log.warning("the service of heartbeat_url did not accept the heartbeat: %s", error)
        return False
    return True
