"""What a client shows the API server of Kubernetes: where it is found, in which order, and what is no credential."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamwarden.adapters.kubernetes.credentials import Credentials, find
from streamwarden.errors import ProcessError

PREFIX = "spark.kubernetes.authenticate."


def kubeconfig(folder: Path, **user: Any) -> dict[str, str]:
    ca = base64.b64encode(b"the authority").decode()
    (folder / "config").write_text(
        yaml.safe_dump(
            {
                "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "one",
                "clusters": [{"name": "c", "cluster": {"certificate-authority-data": ca}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return {"KUBECONFIG": str(folder / "config")}


def test_sparks_settings_come_first(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of a file\n")
    environ = kubeconfig(tmp_path, token="of the kubeconfig")
    found = find({f"{PREFIX}oauthTokenFile": str(tmp_path / "token")}, PREFIX, environ)
    assert found.header() == {"Authorization": "Bearer of a file"}
    assert find({f"{PREFIX}oauthToken": "given"}, PREFIX, environ).header() == {"Authorization": "Bearer given"}
    assert find({}, PREFIX, environ).header() == {"Authorization": "Bearer of the kubeconfig"}


def test_a_token_is_read_for_each_request(tmp_path: Path) -> None:
    """Kubernetes replaces that of a pod every hour."""
    (tmp_path / "token").write_text("old")
    (tmp_path / "ca.crt").write_text("the authority")
    found = Credentials.of_pod(tmp_path)
    (tmp_path / "token").write_text("new")
    assert (found.header(), found.authority) == ({"Authorization": "Bearer new"}, "the authority")
    assert not Credentials.of_pod(tmp_path / "nowhere").usable


def test_a_kubeconfig_has_certificates_as_files_or_as_data(tmp_path: Path) -> None:
    (tmp_path / "client.crt").write_text("a certificate")
    key = base64.b64encode(b"a key").decode()
    found = find({}, PREFIX, kubeconfig(tmp_path, **{"client-certificate": "client.crt", "client-key-data": key}))
    assert (found.certificate, found.key, found.authority) == ("a certificate", "a key", "the authority")
    assert found.header() == {}


@pytest.mark.parametrize("user", [{}, {"exec": {"command": "login"}}])
def test_a_user_without_a_credential_is_no_way_in(tmp_path: Path, user: dict[str, Any]) -> None:
    with pytest.raises(ProcessError, match="nothing says who asks"):
        find({}, PREFIX, kubeconfig(tmp_path, **user))


@pytest.mark.parametrize("text", ["{}", "[", "current-context: one", "contexts: []\ncurrent-context: one"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ProcessError, match="is no kubeconfig"):
        find({}, PREFIX, {"KUBECONFIG": str(tmp_path / "config")})


def test_a_missing_file_of_the_settings_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match=r"nowhere\.crt"):
        find({f"{PREFIX}caCertFile": str(tmp_path / "nowhere.crt")}, PREFIX, {})
