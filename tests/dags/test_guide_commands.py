"""Every `airflow …` that a page tells a person to type is one that this Airflow understands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from airflow.cli.cli_parser import get_parser

from support.airflow.harness import REPOSITORY
from support.guides import PAGES, Page

PARSER = get_parser()


def understood(line: str) -> bool:
    try:
        PARSER.parse_args(shlex.split(line, comments=True)[1:])
    except SystemExit:
        return False
    return True


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_airflow_command_of_a_page_is_understood(path: Path) -> None:
    lines = [re.sub(r"…", "x", line) for line in Page(path.read_text()).commands("airflow")]
    assert [line for line in lines if not understood(line)] == []


def test_the_guide_has_such_commands() -> None:
    assert len(Page((REPOSITORY / "docs" / "deploy.md").read_text()).commands("airflow")) >= 8


@pytest.mark.parametrize("line", ["airflow webserver", "airflow connections add x --uri y", "airflow db init"])
def test_a_command_of_another_airflow_is_not(line: str) -> None:
    assert not understood(line)
