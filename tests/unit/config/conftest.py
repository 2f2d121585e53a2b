"""Every test here has a fresh project."""

from pathlib import Path

import pytest

from support.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path)
