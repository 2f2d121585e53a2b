"""`streamwarden start` beside an Airflow: who restarts the driver from now on, and what the person reads about it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.services.fleet.starting import Starter
from support.airflow.api import AirflowApi, serving
from support.command_line import CommandLine


@pytest.fixture(autouse=True)
def launched(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream `counted`, whose driver is launched without Spark."""
    cli.project.stream("counted")
    record = DriverRecord(
        driver_id="counted-1",
        stream="counted",
        checkpoint="/cp",
        token=1,
        folder="/nowhere",
        launched_by="ann",
        launched_at=time.time(),
    )
    monkeypatch.setattr(Starter, "start", lambda *_, **__: SimpleNamespace(record=record, reattached=False))
    monkeypatch.delenv("AIRFLOW_CONN_STREAMWARDEN_AIRFLOW", raising=False)


def start(cli: CommandLine, url: str | None) -> str:
    """Start the stream where the store knows an Airflow at `url`, if any; the lines that are printed."""
    with cli.store() as store:
        if url is not None:
            store.airflow_servers.seen(url, time.time())
    answer = cli("start", "counted", "--within", "0")
    assert answer.code == 0, answer
    return " ".join(answer.out.split())


def test_its_paused_dag_is_unpaused(cli: CommandLine) -> None:
    with serving(AirflowApi(paused={"stream_counted": True})) as airflow:
        assert "unpaused stream_counted in Airflow, which now supervises it" in start(cli, airflow.url)
        assert airflow.paused == {"stream_counted": False}
        assert "Airflow" not in start(cli, airflow.url), "it follows the stream already"


def test_an_airflow_that_does_not_answer_fails_nothing(cli: CommandLine) -> None:
    printed = start(cli, "http://127.0.0.1:9")
    assert "stream_counted could not be unpaused in Airflow" in printed
    assert "nothing restarts the driver if it fails" in printed
    assert "driver counted-1 launched" in printed


def test_without_an_airflow_there_is_nothing_to_say(cli: CommandLine) -> None:
    assert "Airflow" not in start(cli, None)
