"""How many clicks a person on call needs for each question, from the fleet, on two desktop screens and on a phone.

Each answer, and whatever is clicked on the way to it, is on the screen without scrolling. No Airflow runs: a click that
would run a DAG counts as done when the request is sent (`test_pages.py` follows such runs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from support.pages.on_call import DEPARTURES, ERROR, LOST, PLACE, ROTATIONS, SETTING, WEATHER, fill
from support.pages.served_pages import ServedPages, served_pages

SCREENS = (
    pytest.param((1280, 800), id="1280"),
    pytest.param((390, 844), id="390"),
    pytest.param((1440, 900), id="1440", marks=pytest.mark.full),  # 1280 holds the claim: everything has less room
)
"""Width and height in pixels."""

PATIENCE = 10_000
"""Milliseconds for an answer to appear."""

Find = Callable[[Page], Locator]


@dataclass(frozen=True)
class Question:
    """What a person wants to know, or to do.

    Args:
        clicks: the budget.
        steps: what the person clicks, in this order; a text is typed where the focus is.
        answer: what has to be on the screen then.
        asks: how the address ends to which the last click sends a request; empty: it sends none.
    """

    name: str
    clicks: int
    steps: tuple[Find | str, ...]
    answer: Find
    asks: str = ""


def row(stream: str) -> Find:
    return lambda page: page.locator(f'tr[data-stream="{stream}"] th a')


def last_drill(stream: str) -> Find:
    return lambda page: page.locator(f'tr[data-stream="{stream}"] [data-label="last drill"] a').first


def menu(name: str) -> Find:
    return lambda page: page.get_by_role("navigation", name="Streamwarden").get_by_role("link", name=name, exact=True)


def tab(name: str) -> Find:
    return lambda page: page.get_by_role("navigation", name="Views of this stream").get_by_role(
        "link", name=name, exact=True
    )


def button(name: str) -> Find:
    return lambda page: page.get_by_role("main").get_by_role("button", name=name, exact=True).first


def confirm(name: str) -> Find:
    return lambda page: page.get_by_role("dialog").get_by_role("button", name=name, exact=True)


def said(text: str) -> Find:
    return lambda page: page.get_by_role("main").get_by_text(text).first


def tile(name: str) -> Find:
    return lambda page: page.locator(".tile", has=page.get_by_role("heading", name=name, exact=True)).locator("p").first


def done(page: Page) -> Locator:
    return page.get_by_role("log", name="Results of actions").get_by_text("Done.")


QUESTIONS = (
    Question("is it alive", 1, (row(DEPARTURES),), lambda page: page.locator(".state.running").first),
    Question("how large is its state", 1, (row(DEPARTURES),), tile("state size")),
    Question("how far is it behind", 1, (row(DEPARTURES),), tile("backlog")),
    Question("what did the last drill say", 1, (row(WEATHER),), tile("last drill")),
    Question("why did it die", 2, (row(ROTATIONS),), said(ERROR)),
    Question("which row was lost", 2, (last_drill(WEATHER),), said(LOST)),
    Question("where was the exception", 2, (row(ROTATIONS), tab("Exceptions")), said(PLACE)),
    Question("which setting to change", 2, (row(DEPARTURES), tab("Advice")), said(SETTING)),
    Question(
        "restart it", 3, (row(DEPARTURES), button("Restart"), "to be sure", confirm("Restart")),
        lambda page: page.get_by_role("dialog", name=f"Restart {DEPARTURES}?"), asks="/dags/restart_stream/dagRuns",
    ),
    Question(
        "acknowledge", 3, (menu("Incidents"), button("Acknowledge"), confirm("Acknowledge")), done,
        asks="/acknowledge",
    ),
    Question(
        "mute", 3, (menu("Incidents"), button("Mute"), "it is repaired", confirm("Mute")), done, asks="/mute",
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPages]:
    with served_pages(tmp_path_factory.mktemp("on-call"), fill) as pages:
        yield pages


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_an_answer_is_on_the_first_screen_within_its_clicks(
    pages: ServedPages, browser: Browser, question: Question, screen: tuple[int, int]
) -> None:
    page = pages.open(browser, "/", screen)
    clicks = sum(not isinstance(step, str) for step in question.steps)
    assert clicks <= question.clicks
    *before, last = question.steps
    for step in before:
        _do(page, step, screen)
    if question.asks:
        with page.expect_request(lambda asked: asked.method == "POST" and asked.url.endswith(question.asks)):
            _do(page, last, screen)
    else:
        _do(page, last, screen)
    _on_screen(question.answer(page), screen)
    assert page.evaluate("scrollY") == 0


def _do(page: Page, step: Find | str, screen: tuple[int, int]) -> None:
    if isinstance(step, str):
        page.keyboard.type(step)
        return
    found = step(page)
    _on_screen(found, screen)
    found.click()


def _on_screen(found: Locator, screen: tuple[int, int]) -> None:
    """The whole element is within the first screen."""
    expect(found).to_be_visible(timeout=PATIENCE)
    box, (width, height) = found.bounding_box(), screen
    assert box is not None
    within = box["x"] >= 0 and box["x"] + box["width"] <= width and box["y"] >= 0 and box["y"] + box["height"] <= height
    assert within, f"{box} is not within {width} x {height}"
