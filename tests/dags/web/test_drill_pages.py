"""The pages of drills: each state of a run has a page, nobody reads more than their DAGs, and no text is markup."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep, JournalEntry
from streamwarden.drills.reporting.report import build_report, clock, distance
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.airflow.web_server import served
from support.streams.stored_journals import facts_with, stored

EVIL = "<script>alert('x')</script>"
SECRET = "hunter2-hunter2"
RUNS = ("passed", "deviated", "aborted", "running", "unreadable", "hidden")
PAGES = ("drills", "drills/matrix", "drills/compare", "drills/passed", "api/v1/resilience", "api/v1/drills")

DRILL = """
name: {name}
stream: {stream}
fault: {{kind: {fault}}}
description: What it does {evil}
schedule: "@daily"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The plugin's app, mounted as Airflow mounts it, with real tokens. `ann` may not read the drill `hidden`."""
    with served(tmp_path_factory.mktemp("drill-pages"), _set_up) as client, pytest.MonkeyPatch.context() as patch:
        _hide(patch, "drill_hidden")
        yield client


def _set_up(space: Workspace) -> None:
    _declare(space.project)
    _fill(space)


def _declare(project: Path) -> None:
    add_stream(project, "counted")
    at_state = "kill_driver, moment: after_state"
    faults = {"kill": "kill_driver", "at_state": at_state, "restart": "controlled_restart", "hidden": "freeze_driver"}
    for name, fault in faults.items():
        text = DRILL.format(name=name, stream="counted", fault=fault, evil=EVIL)
        (project / "config" / "drills" / f"{name}.yaml").write_text(text)


def _hide(patch: pytest.MonkeyPatch, dag_id: str) -> None:
    """Airflow's simple auth manager knows roles, and no DAG of its own: nobody may read this one."""
    from airflow.api_fastapi.app import get_auth_manager

    manager = get_auth_manager()
    real = manager.is_authorized_dag

    def authorized(*, details: Any = None, **asked: Any) -> bool:
        return details.id != dag_id and bool(real(details=details, **asked))

    patch.setattr(manager, "is_authorized_dag", authorized)


def _fill(space: Workspace) -> None:
    now = time.time()
    for run in _runs(now):
        space.store.journals.save(run)
        for entry in stored("kill_driver")[1][:3]:
            space.store.journals.append(run.run_id, entry)
    line = JournalEntry(step=DrillStep.FAULT, at=now, kind="note", message=f"{EVIL} password={SECRET}")
    space.store.journals.append("deviated", line)
    space.store.drill_schedules.follow({"restart": "@daily"}, now - 10 * 86400)


def _runs(now: float) -> list[DrillRun]:
    """One in each state, the newest last."""
    passed, _ = stored("kill_driver", run_id="passed", drill="kill", stream="counted")
    passed = replace(passed, facts={**passed.facts, "code": {"jobs/a.py": "1"}})
    samples = {
        "lost": [f"(a): {EVIL}; due from a.json line 3"],
        "duplicated": [f"(b): (2); written by batch 7, which read {EVIL}"],
    }
    deviated = facts_with("kill_driver", lost=1, duplicated=1, samples=samples)
    landed = {**deviated["fault"], "message": f"{EVIL} password={SECRET}"}
    halted = {"status": "aborted", "step": "steady_state", "reason": f"nothing to fork {EVIL}"}
    failed = {"steady_state": {"outcome": "failed", "message": EVIL, "at": now}}
    begun, _ = stored("kill_driver_begun")
    aborted = {"drill": passed.facts["drill"], "halt": halted, "steps": failed}
    made = partial(replace, passed, ended_at=now - 200, reason=f"the reason {EVIL}")
    return [
        passed,
        made(
            run_id="deviated",
            started_at=now - 900,
            deviated=True,
            facts={**deviated, "fault": landed, "code": {"jobs/a.py": "2"}},
        ),
        made(run_id="aborted", started_at=now - 700, status=DrillStatus.ABORTED, deviated=None, facts=aborted),
        made(run_id="unreadable", started_at=now - 500, facts={"drill": {"of": "another version"}}),
        made(run_id="hidden", started_at=now - 300, drill="hidden"),
        replace(begun, run_id="running", drill="kill", stream="counted", started_at=now - 60),
    ]


def bearer(role: str | None) -> dict[str, str]:
    """A token as Airflow issues it, for a user of this role; None: a user who may do nothing."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ann", role=role))
    return {"Authorization": f"Bearer {token}"}


def seen(server: TestClient, path: str, role: str | None = "VIEWER") -> Response:
    return server.get(f"/streamwarden/{path}", headers={**bearer(role), "Accept": "text/html"})


def text(answer: Response) -> str:
    """What a person reads: without markup, single spaces."""
    assert answer.status_code == 200, answer.text
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


@pytest.mark.parametrize("path", PAGES)
def test_a_stranger_gets_nothing(server: TestClient, path: str) -> None:
    """No token, or one that was never issued."""
    assert server.get(f"/streamwarden/{path}").status_code == 401
    forged = {"Authorization": "Bearer e30.e30.x"}
    assert server.get(f"/streamwarden/{path}", headers=forged).status_code == 403


@pytest.mark.parametrize("path", PAGES)
def test_a_viewer_may_read(server: TestClient, path: str) -> None:
    assert seen(server, path).status_code == 200


@pytest.mark.parametrize("path", ["drills/hidden", "drills/compare?a=hidden", "drills/nowhere", "api/v1/drills/hidden"])
def test_whether_a_hidden_run_exists_is_not_told(server: TestClient, path: str) -> None:
    """The answer is that for a run that does not exist."""
    from streamwarden.airflow.web import shared_workspace

    assert shared_workspace.opened().store.journals.get("hidden") is not None
    assert seen(server, path).status_code == 404


@pytest.mark.parametrize("path", ["drills", "drills/matrix", "drills/compare", "api/v1/resilience", "api/v1/drills"])
def test_no_list_names_a_drill_that_the_user_may_not_read(server: TestClient, path: str) -> None:
    """Neither its runs, nor its file, nor its fault."""
    answer = seen(server, path)
    assert "kill" in answer.text
    assert "drill_hidden" not in answer.text
    assert not re.search(r"freeze|[>/\"]hidden\b", answer.text)


def test_a_user_without_rights_sees_empty_pages(server: TestClient) -> None:
    for path in ("drills", "drills/matrix"):
        assert "may read" in text(seen(server, path, None))
    assert seen(server, "api/v1/resilience", None).json()["rows"] == []
    assert seen(server, "drills/passed", None).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "drills/..%2f..%2fetc%2fpasswd",
        "drills/%3Cscript%3E",
        "drills?stream=%3Cscript%3E",
        "drills?drill=..%2f",
        "drills?verdict=LUCKY",
        "drills?offset=-1",
        "drills/compare?a=..%2fpassed",
        "api/v1/resilience?stream=a'%20OR%201=1",
    ],
)
def test_what_comes_from_the_address_is_validated(server: TestClient, path: str) -> None:
    answer = seen(server, path)
    assert answer.status_code in (404, 422)
    assert "<script>" not in answer.text


@pytest.mark.parametrize("run", [run for run in RUNS if run != "hidden"])
@pytest.mark.parametrize("part", ["", "?part=report"])
def test_no_page_of_a_run_holds_markup_or_a_secret_of_the_journal(server: TestClient, run: str, part: str) -> None:
    answer = seen(server, f"drills/{run}{part}")
    assert answer.status_code == 200
    assert EVIL not in answer.text
    assert SECRET not in answer.text
    assert "style=" not in answer.text
    assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["drills", "drills/matrix", "drills/compare?a=passed&b=deviated"])
def test_no_list_holds_markup_of_a_journal_or_a_file(server: TestClient, path: str) -> None:
    assert EVIL not in seen(server, path).text


def test_the_page_of_a_run_has_the_sentence_every_moment_and_every_row(server: TestClient) -> None:
    report = build_report(*stored("kill_driver"))
    page = seen(server, "drills/passed")
    shown = text(page)
    assert report.sentence in shown
    for row in report.rows:
        if row.name != "run":
            assert f"{row.name} {' '.join(row.value.split())}" in shown
    for moment in report.timeline:
        assert f"{clock(moment.at)} {distance(moment)} {moment.text}" in shown
    assert all(each.expected in shown for each in report.expectations)
    assert 'href="/streamwarden/api/v1/drills/passed"' in page.text
    assert "data-refresh" not in page.text


def test_the_course_is_drawn_with_each_moment_that_has_a_label(server: TestClient) -> None:
    page = seen(server, "drills/passed")
    report = build_report(*stored("kill_driver"))
    assert page.text.count('<li data-phase="') == len([each for each in report.timeline if each.label])
    assert re.search(r"\+31\.9 s first new commit \d+\.\d\Ws back, catching up", text(page))


def test_both_formulas_stand_beside_the_measurement(server: TestClient) -> None:
    shown = text(seen(server, "drills/passed"))
    assert re.search(r"T_batch An upper bound .* 29\.6 s 31\.3 s from the launch -5 %", shown)
    assert re.search(r"redone batch 26\.7 s 31\.3 s from the launch -15 %", shown)


def test_a_deviating_row_is_shown_with_its_batch_and_what_it_read(server: TestClient) -> None:
    shown = text(seen(server, "drills/deviated"))
    assert "DEVIATED" in shown
    assert "damages the output: 1 lost, 1 duplicated" in shown
    assert f"(a): {EVIL} lost – a.json line 3" in shown
    assert shown.index("a.json line 3") < shown.index("Course"), "directly after the verdict"
    assert f"(b): (2) duplicated 7 {EVIL}" in shown


def test_an_aborted_run_says_in_which_step_and_that_nothing_was_broken(server: TestClient) -> None:
    shown = text(seen(server, "drills/aborted"))
    assert "ABORTED" in shown
    assert "ended early, in the step steady state : nothing to fork" in shown
    assert "Nothing was broken." in shown


def test_a_running_run_shows_its_step_and_refreshes_itself_until_it_ends(server: TestClient) -> None:
    page = seen(server, "drills/running")
    assert 'id="report" data-refresh="2"' in page.text
    assert "steady state passed fault passed recovery running verification waiting" in text(page)
    assert "data-final" not in seen(server, "drills/running?part=report").text
    assert "data-final" in seen(server, "drills/passed?part=report").text


def test_a_run_of_another_version_keeps_its_verdict_and_says_why_it_cannot_be_read(server: TestClient) -> None:
    shown = text(seen(server, "drills/unreadable"))
    assert "PASSED the reason" in shown
    assert "Another version of Streamwarden wrote this run." in shown
    assert "the journal of the run cannot be read" in shown
    compared = text(seen(server, "drills/compare?a=passed&b=unreadable"))
    assert "The runs cannot be compared" in compared


def test_the_list_has_what_runs_what_is_overdue_and_the_history(server: TestClient) -> None:
    shown = text(seen(server, "drills"))
    assert "RUNNING kill of counted for" in shown
    assert "Overdue : these drills did not begin" in shown
    assert "restart of counted , due at" in shown
    assert re.findall(r"PASSED|DEVIATED|ABORTED|RUNNING", shown.partition("why compare")[2]) == [
        "RUNNING",
        "PASSED",
        "ABORTED",
        "DEVIATED",
        "PASSED",
    ]


def test_the_history_can_be_filtered(server: TestClient) -> None:
    assert "kill DEVIATED" in text(seen(server, "drills?part=history&verdict=DEVIATED"))
    assert "ABORTED" not in text(seen(server, "drills?part=history&verdict=DEVIATED"))
    assert "No run fits" in text(seen(server, "drills?part=history&stream=other"))


def test_a_drill_can_be_started_by_those_who_may_trigger_its_dag(server: TestClient) -> None:
    """The button is there for everybody, and says why it is disabled."""
    button = re.compile(r'<button[^>]*data-dag="drill_kill"[^>]*>')
    (admin,) = button.findall(seen(server, "drills", "ADMIN").text)
    (viewer,) = button.findall(seen(server, "drills").text)
    assert "disabled" not in admin
    assert "breaks a fork of counted by a crash in mid-batch, and proves" in unescape(admin)
    assert "disabled" in viewer


def test_the_matrix_shows_verdict_recovery_trend_and_what_was_never_tried(server: TestClient) -> None:
    page = seen(server, "drills/matrix")
    shown = text(page)
    assert "stream kill driver controlled restart" in shown, "the crash comes first"
    dots = re.findall(r'<(?:a|button)[^>]* class="dot ([A-Z]+(?: overdue)?)"[^>]*data-tip="([^"]*)"', page.text)
    (aborted, told), untried, overdue = dots
    assert (aborted, untried) == ("ABORTED", ("NEVER", "moment: after_state: never tried"))
    assert told.startswith("kill driver: ABORTED ")
    assert overdue == ("NEVER overdue", "controlled restart: never tried, overdue")
    assert re.search(r"kill driver ABORTED \S+( \S+)? ago .* \S+ ago kill ", shown), "the numbers follow"
    assert "controlled restart never tried overdue – never restart" in shown
    assert page.text.count('<svg class="spark"') == 1


def test_a_list_says_what_each_drill_breaks_its_last_verdict_and_its_next_run(server: TestClient) -> None:
    """Also while it runs: `running` does not take the place of the verdict."""
    shown = text(seen(server, "drills?part=drills"))
    assert re.search(r"at_ ?state a crash in mid-batch \(moment: after state\) counted never \S+ \d+ \S+ 00:00", shown)
    assert re.search(r"kill a crash in mid-batch counted PASSED at [-0-9: ]+ UTC RUNNING at ", shown)
    assert "restart a planned restart counted never" in shown
    assert shown.count("overdue") == 1


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("q=mid-batch%20AFTER", ["at_state"]),
        ("q=nowhere", []),
        ("verdict=PASSED", ["kill"]),
        ("verdict=ABORTED", []),
        ("verdict=RUNNING", ["kill"]),
        ("drill=restart", ["restart"]),
    ],
)
def test_drills_are_searched_by_what_they_break_and_by_their_verdict(
    server: TestClient, search: str, found: list[str]
) -> None:
    answer = seen(server, f"drills?part=drills&{search}")
    assert re.findall(r'id="of-(\w+)"', answer.text) == found
    assert ("No drill fits" in text(answer)) is (not found)


def test_a_search_narrows_the_history_too(server: TestClient) -> None:
    assert "No run fits" in text(seen(server, "drills?part=history&q=after%20state"))
    assert "kill DEVIATED" in text(seen(server, "drills?part=history&q=crash"))


def test_the_api_has_the_rows_of_the_matrix(server: TestClient) -> None:
    restart, kill, at_state = seen(server, "api/v1/resilience").json()["rows"]
    assert (at_state["fault"], at_state["variant"], at_state["verdict"]) == (
        "kill_driver",
        "moment: after_state",
        "NEVER",
    )
    assert (restart["verdict"], restart["overdue"], restart["trials"]) == ("NEVER", ["restart"], [])
    assert [each["verdict"] for each in kill["trials"]] == ["ABORTED", "DEVIATED", "PASSED"]
    assert kill["trials"][1]["recovery_seconds"] == pytest.approx(31.876, abs=0.001)
    assert seen(server, "api/v1/resilience?stream=other").json()["rows"] == []


def test_the_api_lists_runs_by_verdict_and_page(server: TestClient) -> None:
    assert [run["run_id"] for run in seen(server, "api/v1/drills?verdict=DEVIATED").json()] == ["deviated"]
    assert [run["run_id"] for run in seen(server, "api/v1/drills?offset=1&limit=2").json()] == ["unreadable", "aborted"]


def test_two_runs_stand_side_by_side(server: TestClient) -> None:
    shown = text(seen(server, "drills/compare?a=passed&b=deviated"))
    assert "job: changed (jobs/a.py)" in shown, "it comes before everything else"
    assert shown.index("job: changed") < shown.index("verdict PASSED DEVIATED")
    assert "lost 0 1 –" in shown
    assert "Both runs had the same settings." in shown


def test_runs_to_compare_are_picked_from_those_that_the_user_may_read(server: TestClient) -> None:
    page = seen(server, "drills/compare?a=passed").text
    assert page.count('<option value="passed" selected ') == 1
    assert page.count('<option value="deviated"') == 2
    assert "Choose two runs." in text(seen(server, "drills/compare?a=passed"))


def test_the_matrix_is_read_again_only_after_a_while() -> None:
    from streamwarden.airflow.web.readable_drills import AGAIN, Matrix

    now, reads = [1000.0], []

    def read(at: float) -> list[Any]:
        reads.append(at)
        return []

    kept = Matrix(read, clock=lambda: now[0])
    assert kept.rows() == (1000.0, [])
    now[0] += AGAIN
    kept.rows()
    now[0] += 1
    assert kept.rows()[0] == now[0]
    assert reads == [1000.0, 1000.0 + AGAIN + 1]
