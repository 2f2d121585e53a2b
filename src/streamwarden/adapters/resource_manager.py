"""YARN's ResourceManager through its REST API: an application found by its tag, and ended.

A ResourceManager whose pages want Kerberos refuses these requests: this is a client without a ticket.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode
from xml.etree import ElementTree

from streamwarden.errors import ProcessError

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
        for variable in _FOLDERS:
            if folder := environ.get(variable):
                settings = _settings(Path(folder) / _FILE)
                if urls := _urls(settings):
                    return cls(urls=urls)
        raise ProcessError(
            "no Hadoop configuration names a ResourceManager",
            expected=f"{_FILE} in the folder of {' or '.join(_FOLDERS)}",
            where="the environment",
            next_step="set HADOOP_CONF_DIR to the folder of the cluster's configuration",
        )

    def tagged(self, tag: str) -> Mapping[str, Any] | None:
        """The newest application with this tag, as the API describes it; None if there is none."""
        found = self._call("GET", f"apps?{urlencode({'applicationTags': tag.lower()})}")["apps"] or {}
        return max(found.get("app", ()), key=lambda application: application["startedTime"], default=None)

    def kill(self, application: str) -> None:
        """End an application, as `yarn application -kill` does."""
        self._call("PUT", f"apps/{application}/state", {"state": "KILLED"})

    def _call(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        problems = []
        for url in self.urls:
            try:
                return _answer(method, f"{url}/ws/v1/cluster/{path}", body)
            except (OSError, ValueError) as error:  # a standby one redirects to the active one, or refuses
                problems.append(f"{url}: {error}")
        raise ProcessError(
            f"the ResourceManager does not answer: {'; '.join(problems)}",
            expected="an answer of its REST API without a login",
            where=f"{method} {path}",
            next_step="check that the ResourceManager runs and that yarn-site.xml names its web page",
        )


def _answer(method: str, url: str, body: Mapping[str, str] | None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310  (http or https)
    with urllib.request.urlopen(request, timeout=ANSWERS_WITHIN) as answer:  # noqa: S310
        return json.load(answer)


def _settings(file: Path) -> dict[str, str]:
    """The properties of a file in Hadoop's format; empty if it cannot be read."""
    try:
        properties = ElementTree.parse(file).getroot().iter("property")  # noqa: S314
    except (OSError, ElementTree.ParseError):
        return {}
    return {(found.findtext("name") or "").strip(): (found.findtext("value") or "").strip() for found in properties}


def _urls(settings: Mapping[str, str]) -> list[str]:
    """The web pages of the ResourceManagers: each of several has its id at the end of its settings. Pure."""
    scheme = "https" if settings.get("yarn.http.policy") == "HTTPS_ONLY" else "http"
    key, port = _WEB[scheme]
    several = settings.get("yarn.resourcemanager.ha.rm-ids", "")
    ends = [f".{name.strip()}" for name in several.split(",") if name.strip()] or [""]
    named = ((settings.get(f"{key}{end}"), settings.get(f"yarn.resourcemanager.hostname{end}")) for end in ends)
    places = (address or (f"{host}:{port}" if host else None) for address, host in named)
    return [f"{scheme}://{place}" for place in places if place]
