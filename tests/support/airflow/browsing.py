"""Pages of Airflow in a browser: what they complain of, and whether everybody can read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from support.airflow.installation import LONG

THEMES = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 29, 45)"}
"""Theme of Airflow -> background of a page."""
DESK, PHONE = 1280, 390
"""Widths in pixels."""
SCREENS = (("light", DESK), ("dark", PHONE))
"""Each theme and each width once."""
PATIENCE = 1000 * LONG
"""Milliseconds; see `LONG`."""
REPORT_VIOLATIONS = """addEventListener("securitypolicyviolation", (event) =>
    console.error(`policy: ${event.violatedDirective} of ${event.blockedURI}`));"""


Open = Callable[..., Page]


@dataclass
class Heard:
    """What a page complained of, and which other servers it asked."""

    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def listen(self, page: Page, origin: str) -> None:
        page.add_init_script(REPORT_VIOLATIONS)
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda asked: self.strangers.append(asked.url) if _strange(asked.url, origin) else None)


def _strange(url: str, origin: str) -> bool:
    return not url.startswith((f"{origin}/", "data:", "blob:"))


def can_be_read(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    has_no_barriers(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


def has_no_barriers(page: Page) -> None:
    found = Axe().run(page).response["violations"]
    grave = [each for each in found if each["impact"] in ("serious", "critical")]
    assert not grave, [(each["id"], [node["html"] for node in each["nodes"]]) for each in grave]
