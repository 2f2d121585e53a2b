"""Connections to brokers and databases, in Airflow's own form: `AIRFLOW_CONN_NAME`, a URI or a JSON object.

A stream's file names a connection; host, user and password come from the environment. Airflow sets that variable for
the drivers that it starts, from wherever its connections are kept; without Airflow, a person or a service manager does.
"""

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from streamwarden.errors import ConfigError
from streamwarden.redaction import remember, secrets_of

PREFIX: Final = "AIRFLOW_CONN_"

_WHOLE_EXTRA: Final = "__extra__"
"""The parameter of a URI that holds all of `extra` as JSON, where it is more than flat texts."""

_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One connection. Its repr shows neither the password nor `extra`, which may hold secrets too."""

    name: str
    kind: str = ""
    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    schema: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


def variable(name: str) -> str:
    """The environment variable that holds the connection `name`."""
    return PREFIX + name.upper()


def connection(name: str, environ: Mapping[str, str] | None = None) -> Connection:
    """The connection `name` from the environment (default: this process's). Raises ConfigError; it shows no value."""
    key = variable(name)
    text = (os.environ if environ is None else environ).get(key, "").strip()
    if not text:
        raise ConfigError(
            f"the connection {name!r} is not known here",
            expected=f"a URI or a JSON object in the environment variable {key}, or a connection of that id in Airflow",
            where=key,
            next_step=f"define it: `airflow connections add {name} …`, or export {key} before `streamwarden start`",
        )
    try:
        parsed = _from_json(name, text) if text.startswith("{") else _from_uri(name, text)
        _remember(parsed)
        return parsed
    except (ValueError, TypeError, AttributeError):
        raise ConfigError(
            f"the connection {name!r} cannot be parsed",
            expected="a URI (`postgresql://user:password@host:5432/database`, special characters percent-encoded) or "
            "Airflow's JSON object (conn_type, host, port, login, password, schema, extra)",
            where=key,
            next_step=f"correct the value of {key}; it is not shown here, because it may hold a password",
        ) from None


def remember_all(environ: Mapping[str, str]) -> None:
    """Redact the secrets of every connection in `environ` from now on. One that cannot be parsed is left out."""
    for name in environ:
        if name.startswith(PREFIX):
            with contextlib.suppress(ConfigError):
                connection(name.removeprefix(PREFIX).lower(), environ)


def _remember(known: Connection) -> None:
    """Redact the connection's secrets from now on. A password that is also its user, its database or its host is shown
    anyway, and would hide ordinary words."""
    shown = {known.name, known.login, known.schema, known.host}
    remember(*(secret for secret in (known.password, *secrets_of(known.extra)) if secret not in shown))


def _from_json(name: str, text: str) -> Connection:
    body = json.loads(text)
    extra = body.get("extra") or {}
    port = body.get("port")
    return Connection(
        name=name,
        kind=str(body.get("conn_type") or ""),
        host=body.get("host") or None,
        port=int(port) if port not in (None, "") else None,
        login=body.get("login") or None,
        password=body.get("password") or None,
        schema=body.get("schema") or None,
        extra=_object(json.loads(extra) if isinstance(extra, str) else extra),
    )


def _from_uri(name: str, text: str) -> Connection:
    uri = urlsplit(text)
    if not uri.scheme or _PERCENT.search(text):
        raise ValueError("not a URI")
    extra: dict[str, Any] = dict(parse_qsl(uri.query, keep_blank_values=True))
    if _WHOLE_EXTRA in extra:
        extra = _object(json.loads(extra[_WHOLE_EXTRA]))
    host, port = _place(uri)
    return Connection(
        name=name,
        kind=uri.scheme.replace("-", "_"),
        host=host,
        port=port,
        login=_plain(uri.username),
        password=_plain(uri.password),
        schema=_plain(uri.path.removeprefix("/")),
        extra=extra,
    )


def _place(uri: SplitResult) -> tuple[str | None, int | None]:
    """Host and port. Several hosts (`one:9092,two:9092`) stay together, with their ports, as brokers are named."""
    place = uri.netloc.rpartition("@")[2]
    if "," in place:
        return unquote(place), None
    return _plain(uri.hostname), uri.port


def _plain(text: str | None) -> str | None:
    return unquote(text) if text else None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("extra is not a JSON object")
    return value
