"""What a client shows the API server of Kubernetes, and whom it trusts: Spark's settings, the account of this pod or a
kubeconfig say it. A kubeconfig whose user is an external program is not used.
"""

import base64
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import yaml

from streamwarden.errors import ProcessError

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has the token of its account and the certificate of the API server's authority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Tokens and certificates.

    Args:
        token_file: read for each request, since Kubernetes replaces it.
        authority, certificate, key: in PEM format.
    """

    token: str | None = None
    token_file: Path | None = None
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None

    @property
    def usable(self) -> bool:
        return bool(self.token or self.token_file or self.certificate)

    def header(self) -> dict[str, str]:
        """The header of a request. Raises OSError if the token's file cannot be read."""
        token = self.token or (self.token_file.read_text(encoding="utf-8").strip() if self.token_file else None)
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def context(self) -> ssl.SSLContext:
        """The client's half of TLS. Raises OSError for a certificate that cannot be used."""
        context = ssl.create_default_context(cadata=self.authority)
        if self.certificate is not None:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as pem:  # Python takes a file alone
                pem.write(f"{self.certificate}\n{self.key or ''}")
                pem.flush()
                context.load_cert_chain(pem.name)
        return context

    @classmethod
    def of_settings(cls, conf: Mapping[str, str], prefix: str) -> Self:
        """Those of Spark's settings that begin with `prefix`. Raises OSError for a file that cannot be read."""
        token_file = conf.get(f"{prefix}oauthTokenFile")
        return cls(
            token=conf.get(f"{prefix}oauthToken"),
            token_file=Path(token_file) if token_file else None,
            authority=_text(conf.get(f"{prefix}caCertFile")),
            certificate=_text(conf.get(f"{prefix}clientCertFile")),
            key=_text(conf.get(f"{prefix}clientKeyFile")),
        )

    @classmethod
    def of_pod(cls, folder: Path = ACCOUNT) -> Self:
        """The account of this pod; nothing in a process that runs in none."""
        if not (folder / "token").is_file():
            return cls()
        return cls(token_file=folder / "token", authority=_text(str(folder / "ca.crt")))

    @classmethod
    def of_kubeconfig(cls, environ: Mapping[str, str], context: str | None = None) -> Self:
        """The user of the current context, or of `context`. Raises OSError and ValueError for an unusable file."""
        file = Path(environ.get("KUBECONFIG", "").split(os.pathsep)[0] or Path.home() / ".kube" / "config")
        if not file.is_file():
            return cls()
        try:
            document = yaml.safe_load(file.read_text(encoding="utf-8"))
            chosen = _named(document["contexts"], context or document["current-context"])["context"]
            user = _named(document["users"], chosen["user"])["user"]
            cluster = _named(document["clusters"], chosen["cluster"])["cluster"]
        except (yaml.YAMLError, KeyError, TypeError) as error:
            raise ValueError(f"{file} is no kubeconfig with a context: {error}") from error
        token_file = user.get("tokenFile")
        return cls(
            token=user.get("token"),
            token_file=file.parent / token_file if token_file else None,
            authority=_pem(cluster, "certificate-authority", file.parent),
            certificate=_pem(user, "client-certificate", file.parent),
            key=_pem(user, "client-key", file.parent),
        )


def find(conf: Mapping[str, str], prefix: str, environ: Mapping[str, str]) -> Credentials:
    """Those of Spark's settings, else of this pod's account, else of the kubeconfig. Raises ProcessError if none is
    usable."""
    ways: tuple[Callable[[], Credentials], ...] = (
        lambda: Credentials.of_settings(conf, prefix),
        Credentials.of_pod,
        lambda: Credentials.of_kubeconfig(environ, conf.get("spark.kubernetes.context")),
    )
    try:
        usable = next((found for way in ways if (found := way()).usable), None)
    except (OSError, ValueError) as error:
        raise _none(prefix, str(error)) from error
    if usable is None:
        raise _none(prefix, "nothing says who asks the API server of Kubernetes")
    return usable


def _none(prefix: str, observed: str) -> ProcessError:
    return ProcessError(
        observed,
        expected=f"{prefix}oauthTokenFile or {prefix}clientCertFile in spark.conf, the account of a pod, or a "
        "kubeconfig with a token or a certificate",
        where="the stream's file, and the environment of this process",
        next_step="name the token's file in spark.conf",
    )


def _text(file: str | None) -> str | None:
    return None if file is None else Path(file).read_text(encoding="ascii")


def _pem(entry: Mapping[str, Any], key: str, folder: Path) -> str | None:
    data = entry.get(f"{key}-data")
    if data is not None:
        return base64.b64decode(data).decode("ascii")
    named = entry.get(key)
    return _text(str(folder / named)) if named else None


def _named(entries: Any, name: str) -> Any:
    return {entry["name"]: entry for entry in entries}[name]
