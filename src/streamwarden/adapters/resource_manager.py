"""YARN's ResourceManager through its REST API: an application found by its tag, and its containers.

A ResourceManager whose pages want Kerberos refuses these requests: this is a client without a ticket.
"""

import getpass
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode

from streamwarden.adapters.hadoop_settings import read
from streamwarden.errors import CheckpointError, ProcessError

ANSWERS_WITHIN: Final = 10.0
"""Seconds for one request."""

_FOLDERS: Final = ("YARN_CONF_DIR", "HADOOP_CONF_DIR")
_FILE: Final = "yarn-site.xml"
_WEB: Final = {
    "http": ("yarn.resourcemanager.webapp.address", 8088),
    "https": ("yarn.resourcemanager.webapp.https.address", 8090),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManager:
    """The ResourceManagers of one cluster, of which one is active. Every method raises ProcessError if none answers.

    Args:
        urls: of their web pages.
    """

    urls: Sequence[str]

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """Those that the Hadoop configuration of this environment names. Raises ProcessError if there is none."""
        folder = next((Path(environ[variable]) for variable in _FOLDERS if environ.get(variable)), None)
        try:
            urls = _urls(read(folder / _FILE)) if folder is not None else []
        except CheckpointError as error:
            raise ProcessError.of(error) from error
        if urls:
            return cls(urls=urls)
        raise ProcessError(
            "no Hadoop configuration names a ResourceManager",
            expected=f"{_FILE} in the folder of {' or '.join(_FOLDERS)}",
            where="the environment",
            next_step="set HADOOP_CONF_DIR to the folder of the cluster's configuration",
        )

    def tagged(self, tag: str) -> Mapping[str, Any] | None:
        """The newest application with this tag, as the API describes it; None if there is none."""
        found = self._get(f"apps?{urlencode({'applicationTags': tag.lower()})}")["apps"] or {}
        return max(found.get("app", ()), key=lambda application: application["startedTime"], default=None)

    def master_container(self, application: str) -> str | None:
        """The id of the container of the newest attempt's master; None if none was given to it yet."""
        attempts = self._get(f"apps/{application}/appattempts")["appAttempts"].get("appAttempt", ())
        newest = max(attempts, key=lambda attempt: attempt["id"], default=None)
        return None if newest is None else newest.get("containerId") or None

    def kill_container(self, container: str) -> None:
        """SIGKILL to the processes of a container, as `yarn container -signal CONTAINER FORCEFUL_SHUTDOWN` does. Its
        node carries it out with its next heartbeat."""
        user = urlencode({"user.name": getpass.getuser()})  # the API changes nothing for a caller without a name
        self._call("POST", f"containers/{container}/signal/FORCEFUL_SHUTDOWN?{user}", bytes)

    def _get(self, path: str) -> Any:
        return self._call("GET", path, json.loads)

    def _call(self, method: str, path: str, decode: Callable[[bytes], Any]) -> Any:
        problems = []
        for url in self.urls:
            try:
                return decode(_answer(method, f"{url}/ws/v1/cluster/{path}"))
            except (OSError, ValueError) as error:  # a standby one redirects to the active one, or refuses
                problems.append(f"{url}: {error}")
        raise ProcessError(
            f"the ResourceManager does not answer: {'; '.join(problems)}",
            expected="an answer of its REST API without a login",
            where=f"{method} {path}",
            next_step="check that the ResourceManager runs and that yarn-site.xml names its web page",
        )


def _answer(method: str, url: str) -> bytes:
    headers = {"Accept": "application/json"}
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310  (http or https)
    with urllib.request.urlopen(request, timeout=ANSWERS_WITHIN) as answer:  # noqa: S310
        content: bytes = answer.read()
    return content


def _urls(settings: Mapping[str, str]) -> list[str]:
    """The web pages of the ResourceManagers: each of several has its id at the end of its settings. Pure."""
    scheme = "https" if settings.get("yarn.http.policy") == "HTTPS_ONLY" else "http"
    key, port = _WEB[scheme]
    several = settings.get("yarn.resourcemanager.ha.rm-ids", "")
    ends = [f".{name.strip()}" for name in several.split(",") if name.strip()] or [""]
    named = ((settings.get(f"{key}{end}"), settings.get(f"yarn.resourcemanager.hostname{end}")) for end in ends)
    places = (address or (f"{host}:{port}" if host else None) for address, host in named)
    return [f"{scheme}://{place}" for place in places if place]
