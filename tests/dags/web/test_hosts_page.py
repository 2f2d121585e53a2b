"""The hosts of a fleet in the API and below the table of streams, for a user who may read them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from streamwarden.lifecycle.driver import DriverRecord, ProcessIdentity
from streamwarden.lifecycle.hosts.report import Drain, HostReport
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.airflow.web_server import bearer, served

PAGES = "/streamwarden"


def fill(space: Workspace) -> None:
    """Two hosts: one runs a driver, the other one is drained, with a reason that is markup."""
    add_stream(space.project, "counted")
    for name in ("one", "two"):
        space.store.hosts.report(
            HostReport(
                name=name,
                identity=f"{name}/boot/1",
                started_at=0.0,
                heartbeat_at=time.time(),
                cores=8,
                memory_bytes=32 * 10**9,
                available_bytes=20 * 10**9,
                data="/data",
                storage="s",
                versions={"spark": "4.3.0"},
            )
        )
    space.store.hosts.drain(Drain(host="two", requested_by="ann", reason="<b>disk</b>", requested_at=0.0))
    space.store.drivers.launched(
        DriverRecord(
            driver_id="counted-1",
            stream="counted",
            checkpoint="c",
            token=1,
            folder="/none",
            launched_by="a test",
            launched_at=time.time(),
            process=ProcessIdentity(host="one/boot/1", pid=1, started_at=1),
        )
    )


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with served(tmp_path_factory.mktemp("hosts"), fill) as made:
        yield made


def test_the_api_has_every_host_with_its_drivers(client: TestClient) -> None:
    one, two = client.get(f"{PAGES}/api/v1/hosts", headers=bearer("VIEWER")).json()
    assert (one["state"], one["drivers"][0]["stream"], one["report"]["versions"]) == (
        "ready",
        "counted",
        {"spark": "4.3.0"},
    )
    assert (two["state"], two["drivers"], two["drain"]["reason"]) == ("drained", [], "<b>disk</b>")


def test_the_fleet_shows_them_below_its_streams(client: TestClient) -> None:
    page = client.get(f"{PAGES}/", headers=bearer("VIEWER")).text
    assert 'aria-label="Hosts"' in page
    assert "&lt;b&gt;disk" in page
    assert "<b>disk" not in page
    refreshed = client.get(f"{PAGES}/?part=fleet", headers=bearer("VIEWER")).text
    assert 'aria-label="Hosts"' not in refreshed, "the table refreshes itself every two seconds without them"


def test_a_user_without_rights_sees_no_host(client: TestClient) -> None:
    assert client.get(f"{PAGES}/api/v1/hosts", headers=bearer(None)).json() == []
    assert 'aria-label="Hosts"' not in client.get(f"{PAGES}/", headers=bearer(None)).text
