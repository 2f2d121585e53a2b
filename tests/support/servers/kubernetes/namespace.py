"""The namespace of a test's streams, with the accounts and rights of Streamwarden's own chart."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from streamwarden.clusters.kubernetes import LABEL, label_value
from support.servers.kubernetes.control_plane import ControlPlane
from support.servers.kubernetes.programs import HELM, programs

CHART = Path(__file__).parents[4] / "packaging" / "kubernetes" / "chart"
RIGHTS = ("ServiceAccount", "Role", "RoleBinding")


def rendered(*options: str, namespace: str = "streams") -> list[dict[str, Any]]:
    """The objects of the chart."""
    command = [programs(HELM)["helm"], "template", "streamwarden", str(CHART), "--namespace", namespace, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@dataclass(frozen=True)
class Namespace:
    """`account` has the rights of a stream's drivers; `powerless` has none."""

    plane: ControlPlane
    folder: Path
    name: str = "streams"
    account: str = "streamwarden-streams"

    def make(self) -> None:
        self.plane.core().create_namespace({"metadata": {"name": self.name}})
        rights = [document for document in rendered("--set", "image=x") if document["kind"] in RIGHTS]
        self.plane.apply(rights, self.name)

    def token(self, account: str | None = None) -> Path:
        """A file with the token of an account."""
        path = self.folder / f"token-{account or self.account}"
        path.write_text(self.plane.account(self.name, account or self.account))
        return path

    @cached_property
    def core(self) -> Any:
        return self.plane.core()

    def pods(self, role: str, driver: str) -> list[Any]:
        """The pods of a role of Spark's, `driver` or `executor`, that belong to a driver of Streamwarden."""
        selector = f"spark-role={role},{LABEL}={label_value(driver)}"
        found = self.core.list_namespaced_pod(self.name, label_selector=selector)
        return list(found.items)

    def conf(self, account: str | None = None) -> dict[str, str]:
        """Spark's settings with which a driver outside of the cluster speaks to it as `account`."""
        return {
            "spark.kubernetes.authenticate.caCertFile": str(self.plane.certificate),
            "spark.kubernetes.authenticate.oauthTokenFile": str(self.token(account)),
        }
