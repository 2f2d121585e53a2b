"""The plugin's pages: what people and programs find on them, and what they may change there."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from streamwarden.adapters.processes import identity as process_identity
from streamwarden.airflow.links import PAGES, drill_run_id
from streamwarden.airflow.web import shared_workspace
from streamwarden.airflow.web.pages.fleet import RIGHTS_AGAIN, Shown
from streamwarden.airflow.web.readings import LOOK_AGAIN
from streamwarden.airflow.web.rendering import environment
from streamwarden.lifecycle.driver import DriverEvent
from streamwarden.lifecycle.events import UI_SERVED
from streamwarden.lifecycle.supervision.restarter import Supervisor, supervised
from streamwarden.services.workspace import Workspace
from support.airflow.harness import wait_for
from support.airflow.known_dags import know
from support.airflow.web_fleet import EVIL, driver, fill
from support.airflow.web_server import bearer, served
from support.streams.health_windows import report

BUTTON = re.compile(r"(<button[^>]*data-action=[^>]*>)([^<]*)</button>")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with served(tmp_path_factory.mktemp("web"), fill) as client:
        yield client


def test_the_fleet_says_what_became_of_a_stream_and_who_did_it(server: TestClient) -> None:
    """A crash, and what the platform does about it; a stop, and by whom."""
    text = server.get(f"{PAGES}/", headers=bearer("VIEWER")).text
    counted = text[text.index('data-stream="counted"') : text.index('data-stream="halted"')]
    assert "killed by signal 9" in counted
    assert re.search(r'restarts <time data-at="[\d.]+" data-form="in">', counted)
    assert "6\N{NO-BREAK SPACE}GB" in counted
    assert "DEVIATED" in counted
    assert "stopped by ann: the disk moves" in text


def test_the_batches_of_a_stream_have_a_tab(server: TestClient) -> None:
    """Newest first, the slowest marked; a stream of several queries has those of each."""
    store = shared_workspace.opened().store
    for number in range(6):
        slow = {"batchDuration": 9000 if number == 2 else 1000}
        store.batches.upsert_progress("halted", report(batch=number, at=time.time() + number, top=slow))
    text = server.get(f"{PAGES}/streams/halted/batches", headers=bearer("VIEWER")).text
    assert re.findall(r'<th scope="row" class="right">(\d+)', text) == ["5", "4", "3", "2", "1", "0"]
    assert re.search(r'>2<div class="why ">the slowest of these<', text)
    part = server.get(f"{PAGES}/streams/halted/batches?part=batches", headers=bearer("VIEWER")).text
    assert "<html" not in part
    of_pair = server.get(f"{PAGES}/streams/pair/batches", headers=bearer("VIEWER")).text
    assert "Each query of this stream has batches of its own" in of_pair
    assert "batches?query=left" in of_pair
    assert server.get(f"{PAGES}/streams/pair/batches?query=none", headers=bearer("VIEWER")).status_code == 404


def test_the_fleet_is_searched_filtered_and_sorted_by_the_server(server: TestClient) -> None:
    def streams(query: str) -> list[str]:
        text = server.get(f"{PAGES}/?part=fleet&{query}", headers=bearer("VIEWER")).text
        return re.findall(r'data-stream="([^"]+)"', text)

    assert streams("sort=stream") == ["counted", "halted", "pair", "pair/left", "pair/right"]
    assert streams("sort=stream&descending=true")[0] == "pair/right"
    assert streams("q=COUNT&sort=stream")[0] == "counted"
    assert streams("state=stopped") == ["halted"]
    assert streams("health=CRITICAL") == ["counted"]
    assert streams("trouble=true") == ["counted"]
    assert streams("sort=state_size&descending=true")[0] == "counted"
    assert streams("limit=2&offset=1&sort=stream") == ["halted", "pair"]
    assert server.get(f"{PAGES}/?sort=password", headers=bearer("VIEWER")).status_code == 422


def test_a_page_that_shows_the_newest_rows_gets_no_others(server: TestClient) -> None:
    """Until something changes, or is asked for, or somebody else asks."""

    def ask(query: str = "", tag: str = "", role: str = "VIEWER") -> tuple[int, str]:
        answer = server.get(f"{PAGES}/?part=fleet{query}", headers={**bearer(role), "If-None-Match": tag})
        return answer.status_code, answer.headers["ETag"]

    status, tag = ask()
    assert status == 200
    assert ask(tag=tag) == (304, tag)
    assert ask("&wide=true", tag=tag)[0] == 200
    store = shared_workspace.opened().store
    store.stops.set_desired(replace(store.stops.desired("halted"), reason="the disk has moved"))
    wait_for("the page to get it", lambda: ask(tag=tag)[0] == 200, timeout=30)
    assert "the disk has moved" in server.get(f"{PAGES}/?part=fleet", headers=bearer("VIEWER")).text


def test_a_page_is_told_that_it_is_up_to_date_only_for_its_user_and_what_it_was_shown() -> None:
    """For half a minute; then Airflow is asked for the rights again."""
    now = [0.0]
    shown = Shown(lambda: now[0])
    shown.keep("tag", "ann", "reading-1")
    assert shown.holds("tag", "ann", "reading-1")
    assert not shown.holds("tag", "ben", "reading-1")
    assert not shown.holds("tag", "ann", "reading-2")
    assert not shown.holds("other", "ann", "reading-1")
    now[0] += RIGHTS_AGAIN + 0.1
    assert not shown.holds("tag", "ann", "reading-1")


def test_a_pause_of_a_dag_is_seen_although_nobody_writes_into_the_store(tmp_path: Path) -> None:
    from airflow.sdk import DAG

    def filled(space: Workspace) -> None:
        fill(space)
        space.store.drivers.event(supervised("counted-2", Supervisor.DAG, time.time()))

    with served(tmp_path, filled) as server:

        def says_so() -> bool:
            return "its DAG is paused" in server.get(f"{PAGES}/?part=fleet", headers=bearer("VIEWER")).text

        assert not says_so()
        know([DAG("stream_counted", schedule=None)], paused=True)
        wait_for("the page to say so", says_so, timeout=LOOK_AGAIN / 2)


def test_a_program_reads_the_same(server: TestClient) -> None:
    found = server.get(f"{PAGES}/api/v1/streams?sort=stream", headers=bearer("VIEWER")).json()
    assert found["totals"]["streams"] == 3
    assert found["totals"]["in_trouble"] == 1
    counted = found["streams"][0]
    assert counted["metrics"]["state_size"] | {"at": 0} == {
        "check": "state_size",
        "title": "State size",
        "status": "CRITICAL",
        "value": 6e9,
        "unit": "bytes",
        "shown": "6 GB",
        "limits": "warning from 1 GB, critical above 5 GB",
        "share": 1.2,
        "reason": "",
        "advice": "",
        "at": 0,
    }
    assert counted["after_exit"]["next"] == "restarts"
    document = server.get(f"{PAGES}/api/v1/openapi.json", headers=bearer("VIEWER")).json()
    assert document["paths"]["/api/v1/streams"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]


def test_the_journal_can_be_read_by_a_program(server: TestClient) -> None:
    journal = server.get(f"{PAGES}/api/v1/drills/run-1", headers=bearer("VIEWER")).json()
    assert journal["facts"]["reconciliation"]["lost"] == 1
    assert journal["entries"][0]["message"] == EVIL


def test_a_browser_gets_errors_as_pages(server: TestClient) -> None:
    html = {"Accept": "text/html"}
    for headers, status, said in (
        (html, 401, "You are not logged in"),
        ({**html, **bearer(None)}, 403, "You may not see this"),
        ({**html, **bearer("VIEWER")}, 404, "There is no such page"),
    ):
        name = "nothing" if status == 404 else "counted"
        answer = server.get(f"{PAGES}/streams/{name}", headers=headers)
        assert (answer.status_code, said in answer.text) == (status, True)


def test_buttons_are_only_for_users_who_may_run_the_dag(server: TestClient) -> None:
    def disabled(role: str) -> bool:
        text = server.get(f"{PAGES}/streams/counted", headers=bearer(role)).text
        return "disabled" in re.findall(r'<button[^>]*data-action="stop"[^>]*>', text)[0]

    assert disabled("VIEWER")
    assert not disabled("USER")


@pytest.mark.parametrize("path", ["/streams/counted", "/incidents", "/incidents/i-1", "/drills"])
def test_a_viewer_sees_every_button_and_why_it_is_disabled(server: TestClient, path: str) -> None:
    """The same buttons as a user who may press them. The reason is not in a `title`, which neither the keyboard nor a
    finger reaches."""

    def buttons(role: str) -> dict[str, str]:
        text = server.get(f"{PAGES}{path}", headers=bearer(role)).text
        return {f"{tag} {label}": tag for tag, label in BUTTON.findall(text)}

    def pressed(found: dict[str, str]) -> list[str]:
        return sorted(
            re.search(r'data-action="(\w+)"', tag)[1] + key.rpartition(">")[2]  # type: ignore[index]
            for key, tag in found.items()
        )

    mine, others = buttons("VIEWER"), buttons("ADMIN")
    assert pressed(mine) == pressed(others) != []
    for tag in mine.values():
        assert 'aria-disabled="true"' in tag
        assert 'aria-describedby="tip"' in tag
        assert re.search(r'data-tip="You may not [^"]+; ask an administrator of this Airflow\."', tag), tag
    assert not any("aria-disabled" in tag for tag in others.values())


def test_a_viewer_reads_why_no_maintenance_can_be_planned(server: TestClient) -> None:
    shown = "You may not change the DAG health; ask an administrator of this Airflow."
    assert shown in server.get(f"{PAGES}/incidents", headers=bearer("VIEWER")).text
    assert shown not in server.get(f"{PAGES}/incidents", headers=bearer("USER")).text


def test_a_number_and_its_unit_are_never_on_two_lines(server: TestClient) -> None:
    text = server.get(f"{PAGES}/", headers=bearer("VIEWER")).text
    assert "6\N{NO-BREAK SPACE}GB" in text
    torn = re.search(r".*\d (ms|s|m|h|d|B|kB|MB|GB)\b.*", re.sub(r"<[^>]*>", "", text))
    assert torn is None, torn[0]


def test_an_incident_is_acknowledged_by_a_user_who_may_change_its_stream(server: TestClient) -> None:
    """It is recorded with the user's name, shown at once, and can be withdrawn."""
    address = f"{PAGES}/api/v1/incidents/i-1"
    assert server.post(f"{address}/acknowledge", json={}, headers=bearer("VIEWER")).status_code == 403
    done = server.post(f"{address}/acknowledge", json={"reason": f"on it {EVIL}"}, headers=bearer("USER"))
    assert done.status_code == 200, done.text
    assert (done.json()["who"], done.json()["status"]) == ("ann (Airflow)", "CRITICAL")
    listed = server.get(f"{PAGES}/incidents?part=list", headers=bearer("VIEWER")).text
    assert '<span class="badge">acknowledged</span> by ann (Airflow)' in listed
    assert EVIL not in listed
    (found,) = server.get(f"{PAGES}/api/v1/incidents", headers=bearer("VIEWER")).json()
    assert found["acknowledged_by"] == "ann (Airflow)"
    assert server.post(f"{address}/withdraw", json={}, headers=bearer("USER")).status_code == 200
    again = server.post(f"{address}/withdraw", json={}, headers=bearer("USER"))
    assert again.status_code == 422
    assert "nothing to withdraw" in again.json()["detail"]
    shown = server.get(f"{PAGES}/incidents/i-1", headers=bearer("VIEWER")).text
    assert shown.count("ann (Airflow)") == 2


def test_a_stream_is_muted_and_the_mute_is_ended(server: TestClient) -> None:
    wanted = {"hours": 2, "reason": "we move it"}
    made = server.post(f"{PAGES}/api/v1/streams/counted/mute", json=wanted, headers=bearer("USER"))
    assert made.status_code == 200, made.text
    assert made.json()["until"] - made.json()["starts_at"] == pytest.approx(7200)
    assert "we move it" in server.get(f"{PAGES}/incidents?part=list", headers=bearer("VIEWER")).text
    end = f"{PAGES}/api/v1/mutes/{made.json()['mute_id']}/end"
    assert server.post(end, json={"reason": "done"}, headers=bearer("VIEWER")).status_code == 403
    assert server.post(end, json={"reason": "done"}, headers=bearer("USER")).status_code == 200
    assert "we move it" not in server.get(f"{PAGES}/incidents?part=list", headers=bearer("VIEWER")).text


@pytest.mark.parametrize(
    ("url", "linked"), [("http://10.0.0.7:40404", True), ("javascript:alert('x')", False)], ids=["a UI", "no address"]
)
def test_a_living_driver_that_serves_sparks_ui_is_linked_to_it(tmp_path: Path, url: str, linked: bool) -> None:
    def filled(space: Workspace) -> None:
        fill(space)
        alive = replace(driver(space, 3, time.time(), None), process=process_identity(os.getpid()))
        space.store.drivers.launched(alive)
        space.store.drivers.event(DriverEvent(driver_id="counted-3", at=1.0, kind=UI_SERVED, detail={"url": url}))

    with served(tmp_path, filled) as client:
        text = client.get(f"{PAGES}/streams/counted/history?part=history", headers=bearer("VIEWER")).text
    assert (f'<a href="{url}"' in text) is linked
    assert ("Spark’s UI" in text) is linked


def test_the_page_of_a_stream_has_the_incidents_of_its_queries_and_that_of_a_query_its_own(tmp_path: Path) -> None:
    def filled(space: Workspace) -> None:
        fill(space)
        (known,) = space.store.incidents.open("counted")
        for name in ("left", "right"):
            of_query = replace(known, incident_id=name, stream=f"pair/{name}", reason=f"{name} keeps too much")
            space.store.incidents.save(of_query)

    with served(tmp_path, filled) as client:

        def shown(address: str) -> list[str]:
            text = client.get(f"{PAGES}/streams/{address}", headers=bearer("VIEWER")).text
            return sorted(re.findall(r"(\w+) keeps too much", text))

        assert shown("pair/incidents?part=incidents") == ["left", "right"]
        assert shown("pair/incidents?part=incidents&query=right") == ["right"]
        assert shown("counted/incidents?part=incidents") == []


def test_a_program_finds_the_drill_that_a_run_of_its_dag_is(tmp_path: Path) -> None:
    """Only if the user may read the drill. The pages ask so for the verdict of what was started on them."""
    dag_run = "manual__2026-11-24T14:40:09.123456+00:00"

    def filled(space: Workspace) -> None:
        fill(space)
        (run,) = space.store.journals.recent(stream="counted", limit=1)
        space.store.journals.save(replace(run, run_id=drill_run_id("kill_driver", dag_run)))

    with served(tmp_path, filled) as client:

        def found(role: str | None, drill: str, run: str) -> list[str]:
            asked = client.get(f"{PAGES}/api/v1/drills", params={"drill": drill, "dag_run": run}, headers=bearer(role))
            return [each["run_id"] for each in asked.json()]

        assert found("VIEWER", "kill_driver", dag_run) == [drill_run_id("kill_driver", dag_run)]
        assert found("VIEWER", "kill_driver", "manual__another") == []
        assert found("VIEWER", "another", dag_run) == []
        assert found(None, "kill_driver", dag_run) == []


def test_pages_work_under_the_path_of_a_proxy(tmp_path: Path) -> None:
    """Every address in a page begins with that path."""
    with served(tmp_path, fill, base="/ops/airflow") as client:
        text = client.get("/ops/airflow/streamwarden/", headers=bearer("VIEWER")).text
        found = re.findall(r'(?:href|src|data-prefix|data-airflow)="(/[^"]*)"', text)
        assert len(found) > 10
        assert [each for each in found if not each.startswith("/ops/airflow")] == []
        script = next(each for each in found if each.endswith("pages.js"))
        assert client.get(script, headers=bearer("VIEWER")).headers["content-type"].startswith("text/javascript")


def test_the_plugin_registers_app_navigation_tab_and_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Airflow's loader asks it for."""
    from airflow._shared.plugins_manager.plugins_manager import is_valid_plugin

    from streamwarden.airflow.plugin import StreamwardenPlugin

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://ops.example/airflow/")
    assert is_valid_plugin(StreamwardenPlugin)
    plugin = StreamwardenPlugin()
    assert [app["url_prefix"] for app in plugin.fastapi_apps] == [PAGES]
    assert {view["destination"]: view["href"] for view in plugin.external_views} == {
        "nav": "/airflow/streamwarden/",
        "dag": "/airflow/streamwarden/dags/{DAG_ID}",
    }
    assert [link.name for link in plugin.operator_extra_links] == ["Drill report", "Stream"]
    assert (Path(__file__).resolve().parents[3] / "plugins" / "streamwarden_plugin.py").is_file()


def test_no_text_turns_the_direction_of_what_follows_it() -> None:
    """Whatever prints it: a filter, a macro, an attribute. Other scripts stay as they are."""
    template = "{% macro told(text) %}<b title='{{ text }}'>{{ text|prose }}</b>{% endmacro %}{{ told(text) }}"
    shown = environment().from_string(template).render(text="safe \u202egnp.exe \u2066שלום\u2069")
    assert shown.count(r"safe \u202egnp.exe \u2066שלום\u2069") == 2
