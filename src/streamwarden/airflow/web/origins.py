"""Refuses requests that another site makes in a person's browser. Airflow itself does not refuse them."""

from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

from airflow.configuration import conf
from fastapi import HTTPException, Request

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def from_here(request: Request) -> None:
    """Raises HTTPException with 403 if another site makes this request.

    A browser says so in `Sec-Fetch-Site`, but only to HTTPS and to its own machine. It sends `Origin` with every
    request that changes something, also over plain HTTP. A program sends neither and brings its own token.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        foreign = site not in ("same-origin", "none")
    else:
        origin = request.headers.get("origin")
        foreign = origin is not None and not is_own(origin, own_hosts(request))
    if foreign:
        raise HTTPException(403, "this request comes from another site")


def own_hosts(request: Request) -> Iterator[str]:
    """The hosts, each with its port if it is not the default one, under which a browser may know this Airflow.

    A proxy may send its own name in `Host` and that of the browser's request in `X-Forwarded-Host`, which uvicorn's
    `--proxy-headers` does not read. Another site cannot forge either: a browser sends no header that a page made up to
    another site, unless that site allowed it before.
    """
    yield request.headers.get("host", "")
    yield from (host.strip() for host in request.headers.get("x-forwarded-host", "").split(","))
    yield urlsplit(conf.get("api", "base_url", fallback="") or "").netloc


def is_own(origin: str, hosts: Iterable[str]) -> bool:
    """Whether `origin` (`https://ops.example:8443`) is one of `hosts`. `null`, the origin of a sandbox, is none.

    The scheme is not compared: a proxy that ends TLS may not say which one the browser used.
    """
    default = _DEFAULT_PORTS.get(urlsplit(origin).scheme)
    own = {_without(default, host) for host in hosts}
    return default is not None and _without(default, urlsplit(origin).netloc) in own - {""}


def _without(port: int | None, host: str) -> str:
    return host.lower().removesuffix(f":{port}")
