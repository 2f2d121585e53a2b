"""The tabs of a stream's page: each has an address, refreshes itself, and answers one question."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from fastapi.testclient import TestClient

from streamwarden.adapters.processes import identity as process_identity
from streamwarden.airflow.links import PAGES
from streamwarden.airflow.web import shared_workspace
from streamwarden.airflow.web.tabs import TABS
from streamwarden.airflow.web.tabs.tab import Of, Tab
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.airflow.web_fleet import EVIL, driver, fill
from support.airflow.web_server import bearer, served
from support.streams.queries import query_record

LOG = f"""\
26/11/27 10:00:00 INFO Batch: batch 1 was committed
26/11/27 10:00:01 WARN Disk: nearly full
26/11/27 10:00:02 ERROR Stream: the query ended {EVIL}
Traceback (most recent call last):
KeyError: "column 'gate' is missing"
26/11/27 10:00:03 INFO Shutdown: bye
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with served(tmp_path_factory.mktemp("tabs"), _fill) as client:
        yield client


def _fill(space: Workspace) -> None:
    """The drivers of `counted` were killed; those of `halted` failed, of which the newest has left its log. `calm`
    never ran."""
    fill(space)
    add_stream(space.project, "calm")
    now = time.time()
    message = "/srv/jobs/halted.py:46: KeyError: \"column 'gate' is missing\""
    for number, at in ((3, now - 3600), (4, now - 60)):
        exit = ExitRecord(
            kind=ExitKind.FAILED, ended_at=at, error_class="KeyError", message=message, next_step=f"fix it {EVIL}"
        )
        folder = space.data / "drivers" / f"halted-{number}"
        record = replace(driver(space, number, at - 60, exit), driver_id=f"halted-{number}", stream="halted")
        space.store.drivers.launched(replace(record, folder=str(folder), process=process_identity(1)))
    folder.mkdir(parents=True)
    (folder / files.LOG).write_text(LOG)


def page(server: TestClient, path: str, role: str = "VIEWER") -> str:
    answer = server.get(f"{PAGES}/streams/{path}", headers=bearer(role))
    assert answer.status_code == 200, answer.text
    return answer.text


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


@pytest.mark.parametrize("tab", TABS, ids=lambda tab: tab.name or "now")
def test_each_tab_has_an_address_the_head_and_the_way_to_every_other(server: TestClient, tab: Tab) -> None:
    text = page(server, f"counted/{tab.name}".rstrip("/"))
    assert "<h1>counted</h1>" in text
    assert re.findall(r'<a href="([^"]+)" aria-current=page>', text) == [
        f"{PAGES}/streams/counted/{tab.name}".rstrip("/")
    ]
    for other in TABS:
        assert f'href="{PAGES}/streams/counted/{other.name}"'.replace('/"', '"') in text
    assert EVIL not in text


@pytest.mark.parametrize(("tab", "part"), [(tab, part) for tab in TABS for part in (*tab.parts, "head")])
def test_each_part_of_a_tab_is_read_alone(server: TestClient, tab: Tab, part: str) -> None:
    whole, alone = (page(server, f"counted/{tab.name}".rstrip("/") + asked, "ADMIN") for asked in ("", f"?part={part}"))
    if part != "head" or "live" not in tab.parts:
        assert f'id="{part}"' in whole
    assert alone.strip()
    assert "<html" not in alone


def test_a_part_that_a_tab_does_not_have_is_the_whole_tab(server: TestClient) -> None:
    answer = server.get("/streamwarden/streams/counted/history?part=happened", headers=bearer("VIEWER"))
    assert answer.status_code == 200
    assert "<!doctype html>" in answer.text
    assert 'id="history"' in answer.text


def test_the_choice_of_a_query_is_where_it_changes_what_is_shown_and_is_kept_between_tabs(server: TestClient) -> None:
    for tab in TABS:
        text = page(server, f"pair/{tab.name}?query=left".replace("/?", "?"))
        offered = "Queries of this stream" in text
        assert offered is (tab.of is not Of.STREAM), tab.name
        assert ("the whole stream" in text) is (tab.of is Of.BOTH), tab.name
        assert f'href="{PAGES}/streams/pair/batches?query=left"' in text


def test_the_same_exception_is_one_line_with_its_place_and_the_log_around_it(server: TestClient) -> None:
    text = page(server, "halted/exceptions")
    (row,) = re.findall(r'<tr><th scope="row".*?</tr>', text, re.DOTALL)
    assert re.match(r"KeyError column 'gate' is missing fix it .* halted\.py:46 2 ", words(row))
    log = words(text[text.index('id="log"') :])
    assert "batch 1 was committed" in log
    assert re.search(r'<span class="CRITICAL found">26/11/27 10:00:02 ERROR Stream', text)
    assert EVIL not in text


def test_the_log_is_searched_by_level_and_text(server: TestClient) -> None:
    def shown(asked: str) -> list[str]:
        text = page(server, f"halted/exceptions?part=log&{asked}")
        return re.findall(r'<span class="[^"]*">26/11/27 \S+ (\w+)', text)

    assert shown("") == ["INFO", "WARN", "ERROR", "INFO"]
    assert shown("level=warning") == ["WARN", "ERROR"]
    assert shown("level=error&q=GATE") == ["ERROR"]
    assert shown("q=nobody+says+this") == []
    assert "newest 50 ended drivers" in page(server, "halted/exceptions?part=log&driver=halted-3")
    for asked, status in (("driver=counted-1", 404), ("driver=..%2Fetc", 422), ("level=loud", 422)):
        answer = server.get(f"{PAGES}/streams/halted/exceptions?{asked}", headers=bearer("VIEWER"))
        assert answer.status_code == status, asked


def test_who_may_not_read_logs_sees_the_exception_without_its_log(
    server: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = get_auth_manager()
    answers = manager.is_authorized_dag

    def without_logs(*, access_entity: DagAccessEntity | None = None, **asked: object) -> bool:
        return access_entity is not DagAccessEntity.TASK_LOGS and answers(access_entity=access_entity, **asked)

    monkeypatch.setattr(manager, "is_authorized_dag", without_logs)
    for asked in ("", "?part=log", "?part=exceptions"):
        text = page(server, f"halted/exceptions{asked}")
        assert "batch 1 was committed" not in text
        assert ("column &#39;gate&#39; is missing" in text) is (asked != "?part=log")


def test_a_stream_that_never_failed_says_so_in_one_line(server: TestClient) -> None:
    assert "Nothing ended a driver or a query of this stream" in page(server, "calm/exceptions")
    assert "Nothing ended a driver or a query of this stream" in page(server, "pair/exceptions"), "that was in 1970"


def test_a_query_whose_driver_is_not_known_has_no_log(server: TestClient) -> None:
    queries = shared_workspace.opened().store.queries
    queries.started(query_record("pair", "right", driver="pair-2", at=time.time(), ended_at=time.time(), error="X: no"))
    queries.ended("pair", "right", "run of right by pair-2", time.time(), "X: no")
    text = page(server, "pair/exceptions")
    assert "query right" in text
    assert "?driver=" not in text


def test_the_drills_of_a_stream_begin_with_the_last_verdict(server: TestClient) -> None:
    text = words(page(server, "counted/drills?part=drills"))
    assert re.match(r"DEVIATED kill_driver at .* the output is not exactly-once .*Run a drill: kill_driver", text)
    assert words(page(server, "halted/drills?part=drills")).startswith("No drill has broken this stream yet")


def test_advice_begins_with_what_to_change_and_the_file_is_shown_without_secrets(server: TestClient) -> None:
    text = words(page(server, "counted/advice?part=advice"))
    assert text.index("To change") < text.index("The linter")
    assert "name: counted" in page(server, "counted/file?part=file")


def test_charts_begin_at_the_launch_unless_a_range_is_chosen(server: TestClient) -> None:
    found = re.search(r'data-since="([\d.]+)"', page(server, "halted/charts"))
    assert found is not None
    assert 0 < time.time() - float(found[1]) < 1000, "the launch two minutes ago, and what was shortly before it"
    assert 'data-range="3600"' in page(server, "halted/charts?range=1h")
    only = re.search(r'data-only="([^"]+)"', page(server, "halted"))
    assert only is not None
    assert len(only[1].split()) == 4


def test_every_template_of_the_tabs_is_used() -> None:
    from streamwarden.airflow.web import rendering

    folder = Path(rendering.__file__).parent / "templates"
    used = {name for tab in TABS for name in (tab.page, *tab.parts.values())} | {"stream_head.html", "stream_log.html"}
    assert {path.name for path in folder.glob("stream_*.html")} <= used
