"""`config/standbys.yaml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.config.project.standbys import FILE, MOST, Standbys, load_standbys
from streamwarden.errors import ConfigError


def read(project: Path, text: str) -> Standbys:
    (project / FILE).parent.mkdir()
    (project / FILE).write_text(text)
    return load_standbys(project)


def test_a_project_without_the_file_has_no_pool(tmp_path: Path) -> None:
    assert load_standbys(tmp_path) == Standbys(count=0)


def test_the_file_says_how_many_wait(tmp_path: Path) -> None:
    assert read(tmp_path, "count: 2\ndrills: 1\n") == Standbys(count=2, drills=1)


@pytest.mark.parametrize(
    "text", ["count: -1\n", f"count: {MOST + 1}\n", "count: many\n", "number: 2\n", "drills: -1\n"]
)
def test_another_number_or_key_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="config/standbys"):
        read(tmp_path, text)
