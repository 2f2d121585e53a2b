"""Selects a driver's environment variables. Pure.

A launcher may be an Airflow process, whose environment holds keys to everything that Airflow knows. A driver gets what
Spark, Hadoop, Python and the network need, the connections that its stream names, and what `spark.env` of its file
names. Everything else stays with the launcher.
"""

from collections.abc import Mapping
from typing import Final

from streamwarden.errors import ConfigError
from streamwarden.redaction import is_secret
from streamwarden.stream.spec import StreamSpec

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")

BY_NAME: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HOSTNAME"),
        *("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"),
        *("LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "MALLOC_ARENA_MAX", "OMP_NUM_THREADS"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"),
        *("KRB5_CONFIG", "KRB5CCNAME", "KUBECONFIG"),
        *_PROXIES,
        *(name.lower() for name in _PROXIES),
    }
)
"""Variables that every driver gets."""

BY_PREFIX: Final = ("LC_", "PYTHON", "SPARK_", "PYSPARK_", "HADOOP_", "YARN_", "STREAMWARDEN_")
"""Variables that begin with one of these: every driver gets them, unless the name is that of a secret."""

OBJECT_STORE: Final = "AWS_"
"""Variables that begin with this belong to the host's own access to an object store."""

_KEPT_BACK: Final = frozenset({"STREAMWARDEN_NOTIFY_URLS"})
"""The URLs of notifications hold secrets, and no driver notifies."""


def inherited(
    environ: Mapping[str, str], spec: StreamSpec, *, connections: Mapping[str, str], own_store: bool
) -> dict[str, str]:
    """The variables of `environ` that a driver of `spec` gets. Raises ConfigError if one of `spark.env` is not set.

    Args:
        connections: name of a connection -> its variable.
        own_store: the stream is in an object store that it reaches with the host's own credentials.
    """
    _require(environ, spec)
    named = {*BY_NAME, *spec.spark.env, *(connections[name] for name in spec.connections)}
    return {
        name: value
        for name, value in environ.items()
        if name in named or (own_store and name.startswith(OBJECT_STORE)) or _is_common(name)
    }


def common(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that every driver gets, whatever its stream."""
    return {name: value for name, value in environ.items() if name in BY_NAME or _is_common(name)}


def declared(environ: Mapping[str, str], spec: StreamSpec) -> dict[str, str]:
    """The variables that the stream's file names. Raises ConfigError if one of them is not set."""
    _require(environ, spec)
    return {name: environ[name] for name in spec.spark.env}


def _is_common(name: str) -> bool:
    return name.startswith(BY_PREFIX) and name not in _KEPT_BACK and not is_secret(name)


def _require(environ: Mapping[str, str], spec: StreamSpec) -> None:
    missing = [name for name in spec.spark.env if name not in environ]
    if missing:
        raise ConfigError(
            f"the variable {missing[0]} is not set",
            expected="each variable of spark.env in the environment of the process that starts the stream",
            where=spec.file or f"stream {spec.name}",
            next_step=f"set {missing[0]} where the stream is started (in Airflow: where its workers run), or remove it "
            "from spark.env",
        )
