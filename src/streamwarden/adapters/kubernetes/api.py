"""The API server of Kubernetes through its REST API: the pods of a driver, their events, and a pod's deletion.

A driver asks too, whose environment need not have Kubernetes' own client.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from streamwarden.adapters.kubernetes.credentials import Credentials
from streamwarden.errors import ProcessError

ANSWERS_WITHIN: Final = 10.0
"""Seconds for one request."""

_LINE: Final = 100
"""Bytes of a line of a log, about."""

_DENIED: Final = frozenset({401, 403})
_MISSING: Final = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """The API server of one cluster, and a namespace. Every method raises ProcessError if it does not answer."""

    url: str
    namespace: str
    credentials: Credentials

    def pods(self, selector: str) -> list[dict[str, Any]]:
        """The pods that a selector of labels finds, as the API describes them."""
        return list(self._call("GET", "pods", {"labelSelector": selector})["items"])

    def warnings(self) -> list[dict[str, Any]]:
        """The warnings of the namespace's pods; none if the account may not list events."""
        fields = "type=Warning,involvedObject.kind=Pod"
        try:
            return list(self._call("GET", "events", {"fieldSelector": fields})["items"])
        except AccessDenied:
            return []

    def delete_pod(self, name: str) -> bool:
        """End a pod without a grace period; False if it is not there any more."""
        try:
            self._call("DELETE", f"pods/{name}", {"gracePeriodSeconds": "0"})
        except NotThere:
            return False
        return True

    def log(self, pod: str, most: int) -> str:
        """The last lines that a pod wrote, of at most so many bytes; empty if it is not there any more."""
        try:
            text = self._read("GET", f"pods/{pod}/log", {"tailLines": str(most // _LINE)})
        except NotThere:
            return ""
        return text[-most:].decode(errors="replace")

    def _call(self, method: str, path: str, query: Mapping[str, str]) -> Any:
        return json.loads(self._read(method, path, query))

    def _read(self, method: str, path: str, query: Mapping[str, str]) -> bytes:
        url = f"{self.url}/api/v1/namespaces/{self.namespace}/{path}?{urlencode(query)}"
        try:
            request = urllib.request.Request(url, headers=self.credentials.header(), method=method)  # noqa: S310
            handler = urllib.request.HTTPSHandler(context=self.credentials.context())
            with urllib.request.build_opener(handler).open(request, timeout=ANSWERS_WITHIN) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise _refusal(error, f"{method} {url}") from error
        except (OSError, ValueError) as error:
            raise ProcessError(
                f"the API server of Kubernetes does not answer: {error}",
                where=f"{method} {url}",
                next_step="check that the API server runs and that spark.master names it",
            ) from error


class AccessDenied(ProcessError):
    """The API server denies the account this request."""


class NotThere(ProcessError):
    """The API server knows no such object."""


def _refusal(error: urllib.error.HTTPError, where: str) -> ProcessError:
    """The error of a request that was refused. The API server says which account may not do what to which resource."""
    kind = AccessDenied if error.code in _DENIED else NotThere if error.code == _MISSING else ProcessError
    try:
        said = json.load(error).get("message") or error.reason
    except ValueError:
        said = error.reason
    return kind(
        f"the API server of Kubernetes refuses a request: {said}",
        expected="a role of that account in the namespace that allows it",
        where=where,
        next_step="give the account the Role of the chart in packaging/kubernetes",
    )
