"""The jobs that README and guides show beside their streams' files: both fit each other, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from streamwarden.config.loading import load_catalog
from streamwarden.lint.finding import Severity
from streamwarden.services.analysis.linting import job_problem, lint_declared
from support.guides import REPOSITORY, Page

SHOWN = ["README.md", "docs/how-to/jobs-and-scripts.md"]


@pytest.mark.parametrize("page", SHOWN)
def test_a_shown_job_fits_the_file_beside_it(tmp_path: Path, page: str) -> None:
    text = (REPOSITORY / page).read_text()
    jobs = dict(re.findall(r"^```python\n# (spark_jobs/\w+\.py)\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    files = {path: yaml.safe_dump(content) for path, content in Page(text).files() if "/streams/" in path}
    assert jobs
    assert len(jobs) == len(files)
    for path, content in {**jobs, **files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    catalog = load_catalog(tmp_path, tmp_path / "var")
    assert catalog.broken == {}
    for spec in catalog.streams.values():
        assert job_problem(spec) is None
        assert Severity.ERROR not in {each.severity for each in lint_declared(spec, ())}
