"""A page of Debian's Chromium, and the pictures of the documentation, which are taken only when they are asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from support.airflow.browsing import DESK, Heard, Open
from support.airflow.installation import Installation

QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync")
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Its programs. The first one has no windows, and opens an empty page in a tenth of the processor time."""
PATIENCE = 60_000
"""Milliseconds for a page of a busy machine to show what it should."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without `--pictures` the file that takes them is not collected."""
    wanted = config.getoption("--pictures") is not None
    return True if collection_path.name == "test_pictures.py" and not wanted else None


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert chromium, "no Chromium on this machine; install it with: apt-get install chromium-headless-shell"
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(QUIET))
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """Without the pages of the test before."""
    yield chromium
    for context in chromium.contexts:
        context.close()


@pytest.fixture
def installation(site: Installation) -> Installation:
    """`counted` runs and is judged each minute; `idle` was never started; the file of `torn` cannot be used."""
    return site


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def visit(browser: Browser, installation: Installation, heard: Heard) -> Open:
    """Opens a path of Airflow in a theme."""

    def open_page(path: str, theme: str = "light") -> Page:
        context = browser.new_context(viewport={"width": DESK, "height": 900})
        context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        page = context.new_page()
        page.request.get(installation.airflow.login)  # every visitor is an administrator
        heard.listen(page, installation.airflow.url)
        page.goto(f"{installation.airflow.url}{path}")
        return page

    return open_page
