"""The chart of packaging/kubernetes: Helm renders it, and a real API server takes every object of it as it is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("kubernetes")

from kubernetes.client import ApiException

from support.servers.kubernetes.control_plane import ControlPlane, control_plane
from support.servers.kubernetes.namespace import CHART, rendered
from support.servers.kubernetes.programs import HELM, programs

pytestmark = [pytest.mark.full, pytest.mark.timeout(600, func_only=True)]

IMAGE = ("--set", "image=registry.example/streamwarden:1")


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """A first build takes longer than a test may."""
    programs(HELM)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with control_plane() as plane:
        plane.core().create_namespace({"metadata": {"name": "streams"}})
        yield plane


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [programs(HELM)["helm"], *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_helm_finds_no_fault_in_the_chart() -> None:
    done = helm("lint", str(CHART), "--strict", *IMAGE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--set", "data.claim=mine", "--set", "secrets={one,two}", "--set-string", "env.AIRFLOW__CORE__PARALLELISM=4"),
        ("--set", "data.storageClass=nfs", "--set", "schedulerGracePeriodSeconds=600"),
    ],
    ids=["defaults", "a claim of one's own", "a class of storage"],
)
def test_the_api_server_takes_every_object(plane: ControlPlane, options: tuple[str, ...]) -> None:
    """It is asked to say what it would do, with unknown and repeated fields as errors."""
    documents = rendered(*IMAGE, *options)
    assert {document["kind"] for document in documents} >= {"Deployment", "StatefulSet", "Service", "Role"}
    plane.apply(documents, "streams", dry_run=True)


def misspelt(documents: list[dict[str, Any]]) -> dict[str, Any]:
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["containerz"] = []
    return deployment


def unselected(documents: list[dict[str, Any]]) -> dict[str, Any]:
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    deployment["spec"]["template"]["metadata"]["labels"] = {"app": "another"}
    return deployment


@pytest.mark.parametrize("broken", [misspelt, unselected])
def test_a_broken_object_is_refused(plane: ControlPlane, broken: Any) -> None:
    """Without which the test above would prove nothing."""
    with pytest.raises(ApiException):
        plane.apply([broken(rendered(*IMAGE))], "streams", dry_run=True)


@pytest.mark.parametrize("options", [(), (*IMAGE, "--set", "imagee=x"), (*IMAGE, "--set", "secrets=[]")])
def test_helm_refuses_values_that_the_schema_does_not_allow(options: tuple[str, ...]) -> None:
    done = helm("template", "streamwarden", str(CHART), *options)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
