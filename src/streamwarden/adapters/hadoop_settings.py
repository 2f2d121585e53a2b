"""Hadoop's own settings on this host, as far as they say where an HDFS answers over HTTP.

They are in `core-site.xml` and `hdfs-site.xml` of the folder `HADOOP_CONF_DIR`, by which Spark finds HDFS, too.
"""

import xml.etree.ElementTree as Xml
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from streamwarden.errors import CheckpointError

FOLDER: Final = "HADOOP_CONF_DIR"
SHIPPED: Final = "__spark_conf__/__hadoop_conf__"
"""Where Spark puts the launcher's settings in the working folder of a driver that YARN runs. The node's own
`HADOOP_CONF_DIR`, which such a driver inherits, may be another one."""

_FILES: Final = ("core-site.xml", "hdfs-site.xml")

_PORTS: Final = {"http": 9870, "https": 9871}
"""Where a NameNode listens if no setting says it."""

_ANYWHERE: Final = frozenset({"", "0.0.0.0"})  # noqa: S104 (what a server listens on; a client has to name a host)


@dataclass(frozen=True, slots=True)
class HadoopSettings:
    """Settings by their names; `folder` is where they are from, empty if no variable names one."""

    values: Mapping[str, str]
    folder: str = ""

    @property
    def default_host(self) -> str | None:
        """The host (with its port), or the name service, of a path `hdfs:///a`; None: HDFS is not the default."""
        parts = urlsplit(self.values.get("fs.defaultFS", ""))
        return parts.netloc or None if parts.scheme == "hdfs" else None

    @property
    def needs_kerberos(self) -> bool:
        return self.values.get("hadoop.security.authentication", "simple").lower() == "kerberos"

    def web_addresses(self, host: str) -> tuple[str, ...]:
        """URLs of the NameNodes of `host`, which is a host with or without a port, or a name service."""
        secure = self.values.get("dfs.http.policy", "HTTP_ONLY") == "HTTPS_ONLY"
        scheme = "https" if secure else "http"
        found = [self._web(scheme, suffix, host) for suffix in self._suffixes(host)]
        return tuple(f"{scheme}://{address}" for address in found)

    def _suffixes(self, host: str) -> Iterator[str]:
        """What the names of the settings of each of its NameNodes end with."""
        for service in _listed(self.values.get("dfs.nameservices")):
            nodes = _listed(self.values.get(f"dfs.ha.namenodes.{service}"))
            suffixes = [f".{service}.{node}" for node in nodes] or [f".{service}"]
            addresses = [self.values.get(f"dfs.namenode.rpc-address{suffix}") for suffix in suffixes]
            if host == service:
                yield from suffixes
                return
            if host in addresses:
                yield suffixes[addresses.index(host)]
                return
        yield ""

    def _web(self, scheme: str, suffix: str, host: str) -> str:
        named = self.values.get(f"dfs.namenode.{scheme}-address{suffix}", "") if self._is_own(suffix, host) else ""
        server, _, port = named.partition(":")
        rpc = self.values.get(f"dfs.namenode.rpc-address{suffix}", host)
        known = rpc.partition(":")[0] if server in _ANYWHERE else server
        return f"{known}:{port or _PORTS[scheme]}"

    def _is_own(self, suffix: str, host: str) -> bool:
        """Whether the settings with this suffix are those of the host: without one they are the default HDFS's."""
        return bool(suffix) or host in (self.default_host, self.values.get("dfs.namenode.rpc-address"))


def hadoop_settings(environ: Mapping[str, str]) -> HadoopSettings:
    """The settings of this host. Raises CheckpointError for a file that cannot be read."""
    shipped = Path(environ.get("PWD", ""), SHIPPED)
    folder = str(shipped) if shipped.is_dir() else environ.get(FOLDER, "")
    values: dict[str, str] = {}
    for name in _FILES if folder else ():
        values |= read(Path(folder, name))
    return HadoopSettings(values, folder)


def read(file: Path) -> dict[str, str]:
    """The settings of one file; empty if it is not there. Raises CheckpointError if it cannot be read."""
    try:
        root = Xml.parse(file).getroot()  # noqa: S314 (the administrator's own file, which Spark reads, too)
    except FileNotFoundError:
        return {}
    except (OSError, Xml.ParseError) as error:
        raise CheckpointError(
            f"Hadoop's settings cannot be read: {error}",
            expected="XML with a `configuration` of properties",
            where=str(file),
            next_step=f"correct the file, or {FOLDER}",
        ) from error
    pairs = ((entry.findtext("name"), entry.findtext("value")) for entry in root.iter("property"))
    return {name.strip(): (value or "").strip() for name, value in pairs if name}


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
