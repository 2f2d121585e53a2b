"""A company's Airflow: users with passwords and roles (the FAB auth manager), behind a TLS proxy, under a path.

1. Nobody sees a page without logging in.
2. A viewer, to whom the documented command gave the navigation entry, logs in and finds the fleet and a stream. What
   a viewer may not do is not offered.
3. An operator mutes the stream and starts it. The mute and the run of the DAG have the operator's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from streamwarden.services.workspace import Workspace
from support.airflow.harness import Airflow, free_port, wait_for
from support.airflow.project import add_stream, make_project
from support.airflow.tls_proxy import tls_proxy

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]

PATH = "/ops/airflow"
FAB = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
PASSWORD = "only-for-this-test"
ROLES = {"vera": "Viewer", "otto": "Op"}
LONG = 240.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address that users know: an Airflow without a scheduler, so nothing runs, behind nginx."""
    root = tmp_path_factory.mktemp("company")
    project = make_project(root / "project")
    add_stream(project, "counted")
    Workspace.open(project, root / "data", environ={}).close()
    airflow, port = Airflow(root / "airflow", project, root / "data"), free_port()
    address = f"https://127.0.0.1:{port}{PATH}"
    airflow.env |= {
        "AIRFLOW__CORE__AUTH_MANAGER": FAB,
        "AIRFLOW__API__BASE_URL": f"{address}/",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{airflow.url}/execution/",
    }
    try:
        users = (f"-u {name} -r {role} -f {name} -l Test -e {name}@example.org" for name, role in ROLES.items())
        airflow.cli(
            ["db", "migrate"],
            *(["users", "create", *user.split(), "-p", PASSWORD] for user in users),
            ["roles", "add-perms", "Viewer", "-r", "Plugins", "-a", "can_read"],
        )
        airflow.commands["api-server"].append("--proxy-headers")
        airflow.start("api-server")
        airflow.start("dag-processor")
        with tls_proxy(root / "nginx", port=port, upstream=airflow.port, path=PATH):
            wait_for("Airflow behind nginx", lambda: _answers(address), timeout=LONG)
            yield address
    finally:
        airflow.down()


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/api/v2/version", verify=False, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def log_in(browser: Browser, site: str) -> Callable[[str], Page]:
    """The page of a user who has just logged in through the form."""

    def as_user(name: str) -> Page:
        page = browser.new_context(ignore_https_errors=True, viewport={"width": 1280, "height": 900}).new_page()
        page.goto(f"{site}/")
        page.get_by_label("Username").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name=re.compile("sign in", re.IGNORECASE)).click()
        page.wait_for_url(lambda url: "/auth/" not in url)
        return page

    return as_user


def test_nobody_sees_a_page_without_logging_in(browser: Browser, site: str) -> None:
    page = browser.new_context(ignore_https_errors=True).new_page()
    answer = page.goto(f"{site}/streamwarden/")
    assert answer is not None
    assert answer.status == 401
    expect(page.get_by_role("heading")).to_have_text("You are not logged in")
    page.get_by_role("link", name="To Airflow").click()
    expect(page.get_by_label("Username")).to_be_visible()


def test_a_session_that_ended_leads_to_the_login_and_back(log_in: Callable[[str], Page], site: str) -> None:
    page = log_in("vera")
    page.goto(f"{site}/streamwarden/?q=count")
    page.context.clear_cookies()
    login = page.locator("#stale").get_by_role("link", name="Log in and come back")
    expect(login).to_be_visible()
    login.click()
    page.get_by_label("Username").fill("vera")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name=re.compile("sign in", re.IGNORECASE)).click()
    page.wait_for_url(f"{site}/streamwarden/?q=count")
    expect(page.get_by_role("link", name="counted", exact=True)).to_be_visible()


def test_a_viewer_finds_the_stream_and_can_change_nothing(log_in: Callable[[str], Page], site: str) -> None:
    home = log_in("vera")
    expect(home.get_by_role("link", name="Streams", exact=True)).to_be_visible()
    page = home.context.new_page()
    errors: list[str] = []
    strangers: list[str] = []
    page.on("console", lambda said: errors.append(f"{said.text} {said.location}") if said.type == "error" else None)
    page.on("request", lambda asked: None if asked.url.startswith((site, "data:")) else strangers.append(asked.url))
    page.goto(f"{site}/streamwarden/")
    page.get_by_role("link", name="counted", exact=True).click()
    page.wait_for_url(f"{site}/streamwarden/streams/counted*")
    expect(page.locator("#charts")).to_contain_text("no ", ignore_case=True)
    buttons = page.get_by_role("group", name="Actions").get_by_role("button").all()
    assert buttons, "a stream offers what its state calls for"
    for button in buttons:
        expect(button).to_be_disabled()
        button.focus()
        expect(page.get_by_role("tooltip")).to_contain_text("You may not run the DAG")
    with page.expect_response(re.compile("part=live")):
        pass
    expect(page.get_by_role("tooltip")).to_be_visible()  # a refresh does not take it away
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_be_hidden()
    assert (errors, strangers) == ([], [])


def test_an_operator_mutes_and_starts_it_in_the_own_name(log_in: Callable[[str], Page], site: str) -> None:
    page = log_in("otto")
    page.goto(f"{site}/streamwarden/streams/counted")
    page.get_by_text("Mute …", exact=True).click()
    page.get_by_role("button", name=re.compile("^Mute")).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the disk moves")
    dialog.get_by_role("button", name=re.compile("^Mute")).click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("log", name="Results of actions")).to_contain_text("Done.")
    page.get_by_role("button", name="Start", exact=True).click()
    dialog = page.get_by_role("dialog", name="Start counted?")
    dialog.get_by_label("Reason").fill("the disk has moved")
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(dialog.get_by_role("status")).to_contain_text("queued", ignore_case=True)
    page.goto(f"{site}/streamwarden/incidents")
    expect(page.get_by_text("otto").first).to_be_visible()
    runs = page.evaluate(f"fetch('{PATH}/api/v2/dags/start_stream/dagRuns').then(answer => answer.json())")["dag_runs"]
    assert [run["triggering_user_name"] for run in runs] == ["otto"]
