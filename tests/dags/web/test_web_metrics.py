"""`/metrics` is closed to strangers; a user sees the streams that the user may read, the scrape token sees them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from streamwarden.errors import ConfigError, StoreError
from support.airflow.project import add_stream
from support.airflow.web_server import served, token

METRICS = "/streamwarden/metrics"
UP = 'streamwarden_up{query="",stream="counted"} 0.0'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with served(tmp_path_factory.mktemp("metrics"), lambda space: _declare(space.project)) as client:
        yield client


def _declare(project: Path) -> None:
    add_stream(project, "counted")


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STREAMWARDEN_METRICS_TOKEN", "STREAMWARDEN_METRICS_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("configured", [None, "", "right"])
@pytest.mark.parametrize("given", [None, "", "wrong", "e30.e30.x", "right ", "ri\u0308ght"])
def test_a_stranger_gets_nothing(
    server: TestClient, monkeypatch: pytest.MonkeyPatch, configured: str | None, given: str | None
) -> None:
    """Neither a user nor the token: 401, also where no token is configured, or an empty one."""
    if configured is not None:
        monkeypatch.setenv("STREAMWARDEN_METRICS_TOKEN", configured)
    headers = {} if given is None else {"Authorization": f"Bearer {given}".encode()}
    answer = server.get(METRICS, headers=headers)  # type: ignore[arg-type]
    if given == "right " and configured == "right":
        assert answer.status_code == 200  # HTTP itself drops blanks at the end of a header
    else:
        assert answer.status_code == 401
        assert "streamwarden_up" not in answer.text


def test_the_token_reads_every_stream(server: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMWARDEN_METRICS_TOKEN", "right")
    answer = server.get(METRICS, headers=bearer("right"))
    assert answer.status_code == 200
    assert UP in answer.text
    assert answer.headers["cache-control"] == "no-store"


def test_the_token_opens_nothing_else(server: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the API and not the pages."""
    monkeypatch.setenv("STREAMWARDEN_METRICS_TOKEN", "right")
    for path in ("/streamwarden/api/v1/streams", "/streamwarden/"):
        assert server.get(path, headers=bearer("right")).status_code in (401, 403)


def test_the_token_may_be_in_a_file_that_changes(
    server: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A new token needs no restart."""
    file = tmp_path / "token"
    monkeypatch.setenv("STREAMWARDEN_METRICS_TOKEN_FILE", str(file))
    assert server.get(METRICS, headers=bearer("first")).status_code == 503
    file.write_text("first\n")
    assert server.get(METRICS, headers=bearer("first")).status_code == 200
    file.write_text("second\n")
    assert server.get(METRICS, headers=bearer("first")).status_code == 401
    assert server.get(METRICS, headers=bearer("second")).status_code == 200
    file.write_text("\n")
    assert server.get(METRICS, headers=bearer("")).status_code == 401


def test_an_error_about_the_file_does_not_show_what_is_in_it(tmp_path: Path) -> None:
    from streamwarden.airflow.web.metrics import scrape_token

    (tmp_path / "token").write_bytes(b"secret\xff")
    with pytest.raises(ConfigError) as caught:
        scrape_token({"STREAMWARDEN_METRICS_TOKEN_FILE": str(tmp_path / "token")})
    assert "secret" not in str(caught.value)


def test_a_user_sees_the_streams_that_the_user_may_read(server: TestClient) -> None:
    """With the header, and with the cookie that the UI sets."""
    assert UP in server.get(METRICS, headers=bearer(token("VIEWER"))).text
    assert UP in server.get(METRICS, cookies={"_token": token("VIEWER")}).text
    answer = server.get(METRICS, headers=bearer(token(None)))
    assert answer.status_code == 200
    assert "stream=" not in answer.text
    assert "streamwarden_round_age_seconds" not in answer.text


def test_prometheus_gets_openmetrics(server: TestClient) -> None:
    accept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1"
    answer = server.get(METRICS, headers={**bearer(token("VIEWER")), "Accept": accept})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert answer.text.endswith("# EOF\n")


def test_a_store_that_does_not_answer_is_reported_by_the_scrape_itself(
    server: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus then knows why there is nothing, and an alert rule reads it."""
    from streamwarden.airflow.web import readable_fleet

    class Away:
        def snapshot(self) -> None:
            raise StoreError("the store does not answer")

    monkeypatch.setattr(readable_fleet, "board", Away)
    answer = server.get(METRICS, headers=bearer(token("VIEWER")))
    assert answer.status_code == 200
    assert "streamwarden_scrape_failures 1.0" in answer.text
    assert "stream=" not in answer.text
