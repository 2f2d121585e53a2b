"""The end of a driver's log on the page of its stream: redacted, escaped, short, and of the stream's own drivers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from fastapi.testclient import TestClient

from streamwarden.adapters.processes import this_host
from streamwarden.airflow.web.stream_details import LINES, LOG_BYTES
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ProcessIdentity
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.airflow.web_server import bearer, served

PAGES = "/streamwarden"
API = f"{PAGES}/api/v1"
EVIL = "<script>alert('x')</script>"
SECRET = "xK9-unlike-any-word"
HERE = ProcessIdentity(host=this_host(), pid=1, started_at=1)
ELSEWHERE = ProcessIdentity(host="worker-7/boot/1", pid=1, started_at=1)


class Streams:
    """Streams with drivers whose logs hold what a test wrote, and the pages over them."""

    def __init__(self, space: Workspace, client: TestClient) -> None:
        self.space, self.client = space, client

    def driver(self, name: str, log: str | None, *, stream: str = "counted", process: ProcessIdentity = HERE) -> Path:
        folder = self.space.data / "drivers" / name
        self.space.store.drivers.launched(
            DriverRecord(
                driver_id=name,
                stream=stream,
                checkpoint="c",
                token=1,
                folder=str(folder),
                launched_by="a test",
                launched_at=time.time(),
                process=process,
            )
        )
        if log is not None:
            folder.mkdir(parents=True)
            (folder / files.LOG).write_text(log)
        return folder

    def log(self, name: str, *, stream: str = "counted", below: str = PAGES) -> tuple[int, str]:
        answer = self.client.get(f"{below}/streams/{stream}/drivers/{name}/log", headers=bearer("VIEWER"))
        return answer.status_code, answer.text


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Streams]:
    spaces: list[Workspace] = []

    def fill(space: Workspace) -> None:
        add_stream(space.project, "counted")
        add_stream(space.project, "halted")
        spaces.append(space)

    with served(tmp_path, fill) as client:
        yield Streams(spaces[0], client)


def test_what_a_job_printed_is_shown_without_its_secrets_and_runs_nothing(streams: Streams) -> None:
    """A password with its name, one that only the stream's specification names, and a script tag."""
    log = f"password=hunter2hunter2\nconnecting with {SECRET}\n{EVIL}\nSparkException: no disk\n"
    folder = streams.driver("counted-1", log)
    files.write_spec(folder, {"name": "counted", "source": {"options": {"kafka.sasl.password": SECRET}}})
    status, text = streams.log("counted-1")
    assert status == 200
    assert "SparkException: no disk" in text
    assert "hunter2" not in text
    assert SECRET not in text
    assert EVIL not in text
    assert "&lt;script&gt;" in text


def test_a_program_reads_the_same_end_without_secrets(streams: Streams) -> None:
    folder = streams.driver("counted-1", f"password=hunter2hunter2\nconnecting with {SECRET}\nno disk\n")
    files.write_spec(folder, {"name": "counted", "source": {"options": {"kafka.sasl.password": SECRET}}})
    status, text = streams.log("counted-1", below=API)
    assert status == 200
    found = json.loads(text)
    assert (len(found["lines"]), found["lines"][-1], found["problem"]) == (3, "no disk\n", "")
    assert "hunter2" not in text
    assert SECRET not in text
    gone = json.loads(streams.log(streams.driver("counted-2", None).name, below=API)[1])
    assert gone["lines"] == []
    assert "newest 50 ended drivers" in gone["problem"]


def test_only_the_end_of_a_long_log_is_shown(streams: Streams) -> None:
    streams.driver("counted-1", "".join(f"line {number}\n" for number in range(5000)))
    _, text = streams.log("counted-1")
    assert text.count("line ") == LINES
    assert f"line {5000 - LINES}\n" in text
    assert "line 4999\n" in text


def test_a_line_without_end_does_not_fill_the_page(streams: Streams) -> None:
    streams.driver("counted-1", "x" * 3 * LOG_BYTES)
    assert LOG_BYTES <= len(streams.log("counted-1")[1]) < LOG_BYTES + 2000


def test_a_log_that_is_elsewhere_or_gone_says_where_it_is(streams: Streams) -> None:
    far = streams.driver("counted-1", None, process=ELSEWHERE)
    gone = streams.driver("counted-2", None)
    empty = streams.driver("counted-3", "")
    for name, folder, said in (
        ("counted-1", far, "on the driver&#39;s host, worker-7"),
        ("counted-2", gone, "newest 50 ended drivers"),
        ("counted-3", empty, "is empty"),
    ):
        status, text = streams.log(name)
        assert status == 200
        assert str(folder) in text
        assert said in text
        assert "<pre" not in text


def test_a_log_of_another_host_on_shared_storage_is_shown(streams: Streams) -> None:
    streams.driver("counted-1", "shared\n", process=ELSEWHERE)
    assert "shared" in streams.log("counted-1")[1]


@pytest.mark.parametrize("name", ["halted-1", "counted-9", "..%2f..%2fetc", "a'%20OR%201=1"])
@pytest.mark.parametrize("below", [PAGES, API])
def test_a_driver_of_another_stream_is_not_found(streams: Streams, name: str, below: str) -> None:
    """Whoever may read one stream may not read the log of another by its driver's id."""
    streams.driver("halted-1", "not yours\n", stream="halted")
    status, text = streams.log(name, below=below)
    assert status in (404, 422)
    assert "not yours" not in text
    assert "not yours" in streams.log("halted-1", stream="halted")[1]


@pytest.mark.parametrize("below", [PAGES, API])
def test_who_may_not_read_the_logs_of_tasks_reads_no_log_of_a_driver(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    """A role of the FAB auth manager may read the runs of a DAG without its logs, where Airflow shows the driver's."""
    streams.driver("counted-1", "words of the driver\n")
    manager = get_auth_manager()
    answers = manager.is_authorized_dag

    def without_logs(*, access_entity: DagAccessEntity | None = None, **asked: Any) -> bool:
        return access_entity is not DagAccessEntity.TASK_LOGS and answers(access_entity=access_entity, **asked)

    assert streams.log("counted-1", below=below)[0] == 200
    monkeypatch.setattr(manager, "is_authorized_dag", without_logs)
    status, text = streams.log("counted-1", below=below)
    assert status == 403
    assert "words of the driver" not in text
    assert streams.client.get(f"{PAGES}/streams/counted", headers=bearer("VIEWER")).status_code == 200


def test_the_page_of_a_stream_offers_the_log_of_each_driver(streams: Streams) -> None:
    for name in ("counted-1", "counted-2"):
        streams.driver(name, "words of the driver\n")
    text = streams.client.get(f"{PAGES}/streams/counted/history", headers=bearer("VIEWER")).text
    for name in ("counted-1", "counted-2"):
        assert f'data-url="{PAGES}/streams/counted/drivers/{name}/log"' in text
    assert "words of the driver" not in text  # it is read when a person opens it
