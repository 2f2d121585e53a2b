"""Lists of addresses, as settings name servers: `one:7077,two:7077`."""

import re
import socket
from collections.abc import Iterator


def addresses(text: str, default: int) -> Iterator[tuple[str, int]]:
    """Host and port of each address in `text`; `default`: the port where none is given."""
    for part in text.split(","):
        host, _, port = part.rpartition(":") if re.search(r":\d+$", part) else (part, "", "")
        yield host.strip("[]"), int(port or default)


def refusal(text: str, default: int, *, within: float) -> str | None:
    """Why no server can answer at the addresses in `text`: each of their hosts refuses a connection. None: a server may
    answer, or only its own client can find out.

    A host reports a refusal at once, while some clients try a refused address again until the time of a request is up.

    Args:
        within: seconds for each connection.
    """
    problem = None
    for host, port in addresses(text, default):
        try:
            socket.create_connection((host, port), timeout=within).close()
        except ConnectionRefusedError as refused:
            problem = f"{host}:{port}: {refused.strerror}"
        except OSError:
            return None
        else:
            return None
    return problem
