"""The tab State of a stream's page, in a real browser, of a real stream in a real Airflow.

1. A person looks at a key of the running stream and at what changed, and verifies a savepoint. The answer is read by
   everybody who may: on a phone, in the dark, with a screen reader.
2. A person puts the stream back to the savepoint, and another one approves it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.removing import delete
from streamwarden.services.savepoints.saved import Savepoints
from support.airflow.browsing import PATIENCE, SCREENS, Heard, Open, can_be_read, has_no_barriers
from support.airflow.harness import Airflow, wait_for
from support.airflow.installation import LONG, Installation

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

STATE = "/streamwarden/streams/counted/state"


@pytest.fixture
def saved(installation: Installation) -> Iterator[str]:
    """A savepoint of the running stream."""
    spec = installation.space.stream("counted")
    wait_for("committed batches", lambda: installation.committed() >= 2, timeout=LONG, explain=installation.story)
    made = create(spec, None, Author(by="ann", reason="before the <b>new</b> job")).id
    yield made
    delete(Savepoints.of(spec), made)


def test_a_person_looks_at_a_key_and_verifies_a_savepoint(visit: Open, heard: Heard, saved: str) -> None:
    page = visit("/streamwarden/streams/counted")
    page.get_by_role("link", name="State", exact=True).click()
    row = page.get_by_role("region", name="Savepoints").get_by_role("row").filter(has_text=saved)
    expect(row).to_contain_text("before the <b>new</b> job")
    row.get_by_role("button", name="Verify", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Verify", exact=True).click()
    said = re.compile(f"Done: {saved}: all is as it was saved")
    expect(dialog.get_by_role("status")).to_have_text(said, timeout=PATIENCE)
    dialog.get_by_role("button", name="Close", exact=True).click()
    _look(page, key="key=k1")
    newest = page.get_by_role("region", name="The newest look")
    expect(newest.get_by_role("heading")).to_contain_text("key=k1 of operator 0")
    expect(newest.get_by_role("region", name="Rows")).to_contain_text("key=k1")
    expect(newest.get_by_role("region", name="Rows")).not_to_contain_text("key=k2")
    expect(page.get_by_label("Key, all if empty")).to_have_value("key=k1")
    for theme, width in SCREENS:
        can_be_read(visit(STATE, theme), width)
    assert (heard.errors, heard.strangers) == ([], [])


def _look(page: Page, *, key: str = "", since: str = "") -> None:
    page.get_by_label("Key, all if empty").fill(key)
    page.get_by_label("Compared with batch").fill(since)
    said, deadline = page.locator("form[data-answer] [role=status]"), time.monotonic() + LONG
    while True:  # Airflow's SQLite may be locked while the machine is busy: a person reads that, and asks again
        page.get_by_role("button", name="Look", exact=True).click()
        expect(said).to_contain_text(re.compile("Done: |It failed: "), timeout=PATIENCE)
        if "Done: " in said.inner_text() or time.monotonic() > deadline:
            break
    expect(said).to_contain_text("Done: ")


@pytest.mark.full
def test_what_changed_since_a_batch_is_shown(visit: Open, saved: str) -> None:
    page = visit(STATE)
    _look(page, since="0")
    newest = page.get_by_role("region", name="The newest look")
    expect(newest.get_by_role("heading")).to_contain_text("batch 0 compared with")
    expect(newest).to_contain_text("keys appeared")
    expect(newest.get_by_role("region", name="What changed")).to_contain_text("appeared")


@pytest.mark.full
def test_a_stream_is_put_back_after_an_approval_and_goes_on(
    visit: Open, installation: Installation, saved: str
) -> None:
    """It runs: the page says that it is stopped first, and started again."""
    batch = Savepoints.of(installation.space.stream("counted")).get(saved).batch
    wait_for("a later batch", lambda: installation.committed() > batch + 3, timeout=LONG)
    before = installation.live_driver().driver_id
    page = visit(STATE)
    row = page.get_by_role("region", name="Savepoints").get_by_role("row").filter(has_text=saved)
    row.get_by_role("button", name="Restore", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("it is stopped at a batch boundary first")
    has_no_barriers(page)
    dialog.get_by_label("Reason").fill("a wrong job")
    dialog.get_by_role("button", name="Restore", exact=True).click()
    expect(dialog.get_by_role("status")).to_contain_text("waits for a person’s approval", timeout=PATIENCE)
    run = installation.airflow.runs("restore_stream")[0]["dag_run_id"]
    link = dialog.get_by_role("link", name="Answer it")
    expect(link).to_have_attribute("href", re.compile(r"/dags/restore_stream/runs/.*/required_actions"))
    asked = _answer(installation.airflow, run)
    assert asked == f"Put the stream counted back to the savepoint {saved}?"
    done = f"Done: counted is put back to savepoint {saved} and goes on after batch {batch}."
    expect(dialog.get_by_role("status")).to_have_text(done, timeout=PATIENCE)
    installation.live_driver(other_than=before)
    installation.commits_again()
    (restored,) = [
        event
        for driver in installation.space.store.drivers.history("counted", 0)
        for event in installation.space.store.drivers.events(driver.driver_id)
        if event.kind == "restored" and event.at > time.time() - LONG
    ]
    assert re.fullmatch(r".* \(Airflow\), approved by .*", restored.detail["by"])


def _answer(airflow: Airflow, run: str) -> str:
    """Approve what the run asks for; returns its subject."""
    path = f"/dags/restore_stream/dagRuns/{run}"
    asked = airflow.call("GET", f"{path}/hitlDetails")["hitl_details"][0]
    task = f"{path}/taskInstances/approval/-1/hitlDetails"
    airflow.call("PATCH", task, json={"chosen_options": ["Approve"], "params_input": {}})
    return str(asked["subject"])
