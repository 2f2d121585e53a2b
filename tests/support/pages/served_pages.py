"""The pages over HTTP, as a browser asks for them, without an Airflow behind them: over a filled store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from playwright.sync_api import Browser, Page

from streamwarden.airflow.links import PAGES
from streamwarden.services.workspace import Workspace
from support.airflow.browsing import Heard
from support.airflow.harness import free_port, wait_for
from support.airflow.web_server import bearer, served


@dataclass(frozen=True)
class ServedPages:
    """The address of the pages, and the workspace that they show."""

    url: str
    space: Workspace

    def open(
        self, browser: Browser, path: str, size: tuple[int, int], theme: str = "light", heard: Heard | None = None
    ) -> Page:
        """A page of an administrator who is logged in, on a screen of this width and height in pixels."""
        width, height = size
        context = browser.new_context(viewport={"width": width, "height": height}, extra_http_headers=bearer("ADMIN"))
        context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        page = context.new_page()
        if heard is not None:
            heard.listen(page, self.url.removesuffix(PAGES))
        page.goto(f"{self.url}{path}")
        return page


@contextmanager
def served_pages(root: Path, fill: Callable[[Workspace], None]) -> Iterator[ServedPages]:
    """See `served`."""
    with served(root, fill) as client:
        from streamwarden.airflow.web import shared_workspace

        port = free_port()
        server = uvicorn.Server(uvicorn.Config(client.app, host="127.0.0.1", port=port, log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            wait_for("the pages", lambda: server.started, timeout=60)
            yield ServedPages(f"http://127.0.0.1:{port}{PAGES}", shared_workspace.opened())
        finally:
            server.should_exit = True
            thread.join()
