"""The tab State of a stream's page, in a real browser, of a real stream in a real Airflow.

1. A person looks at a key of the running stream and at what changed, and verifies a savepoint. The answer is read by
   everybody who may: on a phone, in the dark, with a screen reader.
2. A person puts the stream back to an older batch, and another one approves it.
3. In the second tier every other operation.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.removing import delete
from streamwarden.services.savepoints.saved import Savepoints
from support.airflow.browsing import PATIENCE, SCREENS, Heard, Open, can_be_read, has_no_barriers
from support.airflow.harness import Airflow, wait_for
from support.airflow.installation import LONG, Installation
from support.airflow.project import COUNTING_JOB

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


def _look(page: Page, *, key: str = "", since: str = "", answered: bool = True) -> None:
    page.get_by_label("Key, all if empty").fill(key)
    page.get_by_label("Compared with batch").fill(since)
    said, deadline = page.locator("form[data-answer] [role=status]"), time.monotonic() + LONG
    while True:  # Airflow's SQLite may be locked while the machine is busy: a person reads that, and asks again
        page.get_by_role("button", name="Look", exact=True).click()
        expect(said).to_contain_text(re.compile("Done|It failed: "), timeout=PATIENCE)
        if "Done" in said.inner_text() or time.monotonic() > deadline:
            break
    expect(said).to_contain_text("Done: " if answered else "there is no answer")


@pytest.mark.full
def test_what_changed_since_a_batch_is_shown(visit: Open, saved: str) -> None:
    page = visit(STATE)
    _look(page, since="0")
    newest = page.get_by_role("region", name="The newest look")
    expect(newest.get_by_role("heading")).to_contain_text("batch 0 compared with")
    expect(newest).to_contain_text("keys appeared")
    expect(newest.get_by_role("region", name="What changed")).to_contain_text("appeared")


def test_a_stream_is_rewound_after_an_approval_and_goes_on(
    visit: Open, heard: Heard, installation: Installation
) -> None:
    """It runs: the page says that it is stopped first, and started again."""
    wait_for("committed batches", lambda: installation.committed() >= 6, timeout=LONG, explain=installation.story)
    before, batch = installation.live_driver().driver_id, installation.committed() - 3
    page = visit(STATE)
    dialog = _dialog(page, "Rewind")
    expect(dialog).to_contain_text("it is stopped at a batch boundary")
    plan = dialog.locator("#confirm-plan")
    dialog.get_by_label("Back to the end of batch").fill("999999")
    dialog.get_by_label("Reason").fill("a wrong job")
    dialog.get_by_role("button", name="Rewind", exact=True).click()
    expect(dialog.get_by_role("status").last).to_be_empty()  # the browser refuses a batch that is not kept
    dialog.get_by_label("Back to the end of batch").fill(str(batch))
    expect(plan).to_contain_text(f"Batch: {batch}. A savepoint of it is taken.")
    expect(plan).to_contain_text("they are read and written again")
    dialog.get_by_label("Try it on a fork first").uncheck()
    has_no_barriers(page)
    said = _approved(dialog, "Rewind", "rewind_stream", installation.airflow)
    assert said.startswith("Done: counted is put back to savepoint "), said
    assert said.endswith(f" and goes on after batch {batch}."), said
    installation.live_driver(other_than=before)
    installation.commits_again()
    assert heard.errors == []


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_what_rewrites_the_state_is_carried_out_and_airflow_learns_no_key(
    visit: Open, heard: Heard, installation: Installation
) -> None:
    """One stream, in this order: a savepoint is taken and verified, the state is compacted and repartitioned, a value
    is set, and a key is deleted. Airflow never learns the keys and the value."""
    space, airflow, page = installation.space, installation.airflow, visit(STATE)
    wait_for("committed batches", lambda: installation.committed() >= 6, timeout=LONG, explain=installation.story)

    said = _done(_dialog(page, "Take a savepoint", reason="before it all"), "Take a savepoint")
    (saved,) = re.findall(r"Done: (\S+) has batch", said)
    page.reload()
    row = page.get_by_role("region", name="Savepoints").get_by_role("row").filter(has_text=saved)
    assert "all is as it was saved" in _done(_dialog(page, "Verify", within=row, reason=None), "Verify")

    for label, dag, fields, expected, keys in (
        ("Compact", "compact_state", {}, "its content is as it was", (SECRET,)),
        ("Repartition", "repartition_stream", {"Partitions": "2"}, "has 2 partitions", (SECRET, CORRECTED)),
    ):
        before = installation.live_driver().driver_id
        for key in keys:
            _publish(installation, key)  # a driver that starts reads the oldest file first
        said = _approved(_dialog(page, label, fields), label, dag, airflow)
        assert expected in said, said
        installation.live_driver(other_than=before)
        installation.commits_again()
    file = space.project / "config" / "streams" / "counted.yaml"
    file.write_text(file.read_text().replace("shuffle_partitions: 1", "shuffle_partitions: 2"))  # as the guide says

    space.fleet.stop("counted", requested_by="a test", reason="the key stays in the state meanwhile")
    to_set = page.get_by_role("region", name="Values to set")
    dialog = _dialog(page, "Set a value", {"Key": f"key={CORRECTED}", "New value": VALUE})
    said = _approved(dialog, "Set a value", "set_value", airflow, seen=lambda: expect(to_set).to_contain_text(VALUE))
    assert "a value of 1 key set in the state of counted" in said, said
    expect(to_set).to_have_count(0)
    _look(page, key=f"key={CORRECTED}")
    expect(page.get_by_role("region", name="The newest look")).to_contain_text(VALUE)

    dialog = _dialog(page, "Delete keys", {"Key": "key=nobody"})
    assert "ended as failed: counted: no key was deleted from the state of counted" in _done(dialog, "Delete keys")
    waiting = page.get_by_role("region", name="Keys to delete")
    expect(waiting).to_contain_text("Not deleted: the state has no such key")
    dialog = _dialog(page, "Delete keys", {"Key": f"key={SECRET}"})
    said = _approved(
        dialog, "Delete keys", "delete_keys", airflow, seen=lambda: expect(waiting).to_contain_text(SECRET)
    )
    assert "deleted from the state of counted; every other row is as it was" in said, said
    expect(waiting).not_to_contain_text(SECRET)
    _look(page, key=f"key={SECRET}", answered=False)
    for secret in (SECRET, CORRECTED, VALUE):
        assert not _files_with(secret, airflow.home), f"Airflow has learnt {secret}"
    assert _files_with("delete_keys", airflow.home), "the search finds what is there"
    airflow.trigger("start_stream", stream="counted", reason="a test")
    installation.live_driver()
    installation.commits_again()
    assert heard.errors == []


@pytest.mark.full
def test_the_job_is_upgraded_after_an_approval(visit: Open, heard: Heard, installation: Installation) -> None:
    wait_for("committed batches", lambda: installation.committed() >= 6, timeout=LONG, explain=installation.story)
    before, job = installation.live_driver().driver_id, "spark_jobs/counting_v2.py"
    (installation.space.project / job).write_text(f"{COUNTING_JOB}\n# version 2\n")
    fields = {"New version": job, "Newest batches": "1", "Watch": "5s"}
    said = _approved(_dialog(visit(STATE), "Upgrade", fields), "Upgrade", "upgrade_stream", installation.airflow)
    assert "counted runs counting_v2.py" in said, said
    installation.live_driver(other_than=before)
    installation.commits_again()
    assert heard.errors == []


SECRET, CORRECTED = "person-48151623", "person-42108151"
"""Keys that are in the input, and nowhere else until Spark reads them."""
VALUE = "31415926535897"
"""A count that only a person can set."""


def _publish(installation: Installation, key: str) -> None:
    """One more row with this key, in a file that is older than all others, and of the time that is read now."""
    folder, second = installation.producer.folder, installation.committed()
    at = f"2024-01-01T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
    file = folder / f".{second}.part"
    file.write_text(json.dumps({"key": key, "at": at}) + "\n")
    os.utime(file, (1_700_000_000 - 3600,) * 2)
    file.rename(folder / f"{key}-{second}.json")


def _files_with(text: str, root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def _dialog(
    page: Page,
    label: str,
    fields: Mapping[str, str] | None = None,
    *,
    within: Any = None,
    reason: str | None = "a test",
) -> Locator:
    """The filled dialog of this button."""
    (within or page).get_by_role("button", name=label, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    for name, value in (fields or {}).items():
        dialog.get_by_label(name).first.fill(value)
    if reason is not None:
        dialog.get_by_label("Reason").fill(reason)
    return dialog


def _done(dialog: Locator, label: str) -> str:
    """Start what the dialog asks for; how it ended. The dialog is closed then."""
    _start(dialog, label, "Done|ended as")
    said = dialog.get_by_role("status").last.inner_text()
    dialog.get_by_role("button", name="Close", exact=True).click()
    return str(said)


def _start(dialog: Locator, label: str, until: str) -> None:
    """Airflow's SQLite may be locked while the machine is busy: a person reads that, and asks again."""
    said, deadline = dialog.get_by_role("status").last, time.monotonic() + LONG
    while True:
        dialog.get_by_role("button", name=label, exact=True).click()
        expect(said).to_contain_text(re.compile(f"{until}|It failed: "), timeout=2 * PATIENCE)
        if "It failed: " not in said.inner_text() or time.monotonic() > deadline:
            return


def _approved(
    dialog: Locator, label: str, dag: str, airflow: Airflow, *, seen: Callable[[], object] = lambda: None
) -> str:
    """The same, and approve it. seen: looks at the page while it waits for the approval."""
    _start(dialog, label, "waits for a person’s approval|ended as")
    expect(dialog.get_by_role("link", name="Answer it")).to_have_attribute("href", re.compile(f"/dags/{dag}/runs/"))
    seen()
    _answer(airflow, dag)
    said = dialog.get_by_role("status").last
    expect(said).to_contain_text(re.compile("Done|ended as"), timeout=2 * PATIENCE)
    text = said.inner_text()
    dialog.get_by_role("button", name="Close", exact=True).click()
    return str(text)


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
    link = dialog.get_by_role("link", name="Answer it")
    expect(link).to_have_attribute("href", re.compile(r"/dags/restore_stream/runs/.*/required_actions"))
    asked = _answer(installation.airflow, "restore_stream")
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


def _answer(airflow: Airflow, dag: str) -> str:
    """Approve what the newest run asks for; returns its subject."""
    run = airflow.runs(dag)[0]["dag_run_id"]
    wait_for("the scheduler", lambda: airflow.has_noticed(dag, run, "approval"), timeout=LONG)
    path = f"/dags/{dag}/dagRuns/{run}"
    asked = airflow.call("GET", f"{path}/hitlDetails")["hitl_details"][0]
    task = f"{path}/taskInstances/approval/-1/hitlDetails"
    airflow.call("PATCH", task, json={"chosen_options": ["Approve"], "params_input": {}})
    return str(asked["subject"])
