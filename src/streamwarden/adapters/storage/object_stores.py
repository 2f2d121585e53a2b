"""Access to object stores with S3's interface, in the form that each client needs.

The driver's Spark uses Hadoop's S3A. Everything that reads a checkpoint or an output without Spark uses fsspec over
pyarrow's client. Both use the standard variables `AWS_…` if a stream names no connection. A connection is one of
Airflow's Amazon provider: login and password are the access key, and `extra` may contain `aws_session_token`,
`region_name`, `endpoint_url` (or `service_config: {s3: {endpoint_url}}`), and
`config_kwargs: {s3: {addressing_style}}`. There is no standard variable for the last one:
`STREAMWARDEN_S3_ADDRESSING` sets it.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from fsspec.implementations.arrow import ArrowFSWrapper

from streamwarden.adapters.connections import Connection, connection
from streamwarden.errors import ConfigError
from streamwarden.stream.spec import OBJECT_STORE

REGION: Final = "us-east-1"
"""The region of a store other than Amazon's whose connection names none. Such a store accepts any region, but the
signature of a request needs one."""

SECRETS: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
KEYS: Final = ("AWS_ACCESS_KEY_ID", *SECRETS)

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_ADDRESSING: Final = "STREAMWARDEN_S3_ADDRESSING"
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_CONNECT_WITHIN: Final = 5.0
_ANSWER_WITHIN: Final = 60.0
_ATTEMPTS: Final = 4

_KNOWN: Final = frozenset(
    {"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "region_name", "endpoint_url"}
    | {"service_config", "config_kwargs", "host"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStoreAccess:
    """How a store is reached. Its repr shows no secret.

    Args:
        key: None: what the host's own chain finds (environment, profile, the machine's role).
        endpoint: URL of a store other than Amazon's; None: Amazon's.
        path_style: the bucket is in the path and not in the host's name, as most other stores require.
    """

    key: str | None = None
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint: str | None = None
    path_style: bool = False


def access(name: str | None, environ: Mapping[str, str] | None = None) -> ObjectStoreAccess:
    """The access that the connection `name` gives; None: the one of the environment (default: this process's).

    Raises ConfigError for a connection that does not exist or has a setting that this package does not support.
    """
    environ = os.environ if environ is None else environ
    return _of_environment(environ) if name is None else of_connection(connection(name, environ))


def of_connection(known: Connection) -> ObjectStoreAccess:
    """Raises ConfigError if the connection has another type, or a setting that Spark or the reader cannot apply."""
    extra = known.extra
    unknown = sorted(set(extra) - _KNOWN)
    if known.kind not in ("aws", "s3") or unknown:
        what = f"is of the type {known.kind!r}" if not unknown else f"has {', '.join(unknown)} in its extra"
        raise ConfigError(
            f"the connection {known.name!r} {what}",
            expected=f"the type aws, and in its extra some of {', '.join(sorted(_KNOWN - {'host'}))}",
            where=f"connection {known.name}",
            next_step="correct the connection; a role is taken from the machine by a stream that names no connection",
        )
    key = known.login or _text(extra.get("aws_access_key_id"))
    secret = known.password or _text(extra.get("aws_secret_access_key"))
    if (key is None) != (secret is None):
        raise ConfigError(
            f"the connection {known.name!r} has one half of an access key",
            expected="login (the key's id) and password (the secret), or neither",
            where=f"connection {known.name}",
            next_step="add the other half",
        )
    endpoint = _text(
        _inner(extra, "service_config", "s3", "endpoint_url") or extra.get("endpoint_url") or extra.get("host")
    )
    if endpoint is not None and re.fullmatch(r"https?://[^/\s]+/?", endpoint) is None:
        raise ConfigError(
            f"the connection {known.name!r} names the endpoint {endpoint!r}",
            expected="a URL such as https://storage.example:9000, without a path",
            where=f"connection {known.name}",
            next_step="correct endpoint_url in its extra",
        )
    region = _text(extra.get("region_name"))
    if endpoint is None and region is None:
        raise ConfigError(
            f"the connection {known.name!r} names neither a region nor an endpoint",
            expected="region_name in its extra, or endpoint_url for a store other than Amazon's",
            where=f"connection {known.name}",
            next_step="add it to the connection",
        )
    style = _text(_inner(extra, "config_kwargs", "s3", "addressing_style"))
    return ObjectStoreAccess(
        key=key,
        secret=secret,
        token=_text(extra.get("aws_session_token")),
        region=region,
        endpoint=endpoint.rstrip("/") if endpoint else None,
        path_style=_by_path(style, endpoint),
    )


def environment(known: ObjectStoreAccess) -> dict[str, str | None]:
    """The standard variables by which a driver's processes find the store; None: a variable that must not be there."""
    region = known.region or (REGION if known.endpoint else None)
    variables: dict[str, str | None] = dict.fromkeys((*_ENDPOINTS, *_REGIONS))
    if known.key is not None:  # the caller's own token does not match this key
        variables |= dict(zip(KEYS, (known.key, known.secret, known.token), strict=True))
    style = "path" if known.path_style else "virtual"
    return variables | {"AWS_ENDPOINT_URL_S3": known.endpoint, "AWS_REGION": region, _ADDRESSING: style}


def spark_settings(known: ObjectStoreAccess) -> dict[str, str]:
    """S3A's settings. No secret is among them: S3A takes the key from the environment."""
    s3a = "spark.hadoop.fs.s3a"
    settings = {f"{s3a}.path.style.access": str(known.path_style).lower()}
    if known.endpoint:
        settings[f"{s3a}.endpoint"] = known.endpoint
        settings[f"{s3a}.connection.ssl.enabled"] = str(known.endpoint.startswith("https")).lower()
    if known.endpoint or known.region:
        settings[f"{s3a}.endpoint.region"] = known.region or REGION
    return settings


class BucketFiles(ArrowFSWrapper):  # type: ignore[misc]  # fsspec is untyped
    """pyarrow's S3 client as a file system of fsspec, whose paths are whole URLs."""

    cachable = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        """The path in the client's terms, `bucket/key`; a `#` or `?` in a key is a part of it."""
        return OBJECT_STORE.sub("", path, count=1)

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Copy within the store; the inherited method copies through this host and a second object."""
        self.fs.copy_file(self._strip_protocol(path1), self._strip_protocol(path2))


@lru_cache(maxsize=16)
def file_system(known: ObjectStoreAccess) -> BucketFiles:
    """The store. This sends no request yet."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    return BucketFiles(
        S3FileSystem(
            access_key=known.key,
            secret_key=known.secret,
            session_token=known.token,
            region=known.region or (REGION if known.endpoint else None),
            endpoint_override=known.endpoint,
            force_virtual_addressing=not known.path_style,
            connect_timeout=_CONNECT_WITHIN,
            request_timeout=_ANSWER_WITHIN,
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        )
    )


def _of_environment(environ: Mapping[str, str]) -> ObjectStoreAccess:
    endpoint = next((environ[name] for name in _ENDPOINTS if environ.get(name)), None)
    key, secret, token = (environ.get(name) or None for name in KEYS)
    return ObjectStoreAccess(
        key=key if secret else None,
        secret=secret if key else None,
        token=token if key and secret else None,
        region=next((environ[name] for name in _REGIONS if environ.get(name)), None),
        endpoint=endpoint.rstrip("/") if endpoint else None,
        path_style=_by_path(environ.get(_ADDRESSING), endpoint),
    )


def _by_path(style: str | None, endpoint: str | None) -> bool:
    """Stores other than Amazon's want the bucket in the path, unless the style is set."""
    return style == "path" if style else endpoint is not None


def _inner(extra: Mapping[str, Any], *keys: str) -> Any:
    value: Any = extra
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _text(value: Any) -> str | None:
    return str(value) if value else None
