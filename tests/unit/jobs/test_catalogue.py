"""What holds for every job of the catalogue: a stream of its name, and an oracle that shares no code with it."""

import ast
from pathlib import Path

import pytest

from streamwarden.config.collisions import rules_across
from streamwarden.services.verifying.oracle_files import load_oracle
from support.streams.catalogue import REPOSITORY, jobs, streams

JOBS = jobs()


def imported(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    names = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return names | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_an_oracle_is_written_from_the_question_and_needs_no_spark(job: Path) -> None:
    assert callable(load_oracle(job))
    modules = imported(job.parent / "oracles" / job.name)
    own = {name for name in modules if name.startswith(("streamwarden", "spark_jobs"))}
    allowed = "streamwarden.verification.", "streamwarden.units", "streamwarden.errors"
    assert all(name.startswith(allowed) for name in own)
    assert not {name.split(".")[0] for name in modules} & {"pyspark", "pandas", "pyarrow", job.stem}


def test_the_streams_of_the_catalogue_are_valid_and_apart_from_each_other(tmp_path: Path) -> None:
    assert rules_across(streams(tmp_path).values()) == {}


def test_each_job_is_in_the_folder_of_the_jobs() -> None:
    assert {job.parent for job in JOBS} == {REPOSITORY / "spark_jobs"}


def test_each_job_documents_its_state_bound_and_its_guarantees() -> None:
    for job in JOBS:
        text = ast.get_docstring(ast.parse(job.read_text())) or ""
        bound = "bounds it" in text or "Bounded because" in text
        assert (bound and "State" in text and "Guarantee, end to end" in text) or "How not to do it" in text, job


def test_each_state_variable_that_an_audit_reads_is_one_of_the_job() -> None:
    """A variable that was renamed in the job alone would end each audit of the stream without a result."""
    read = {
        (stream.name, amount.variable, Path(stream.job))
        for stream in streams().values()
        for amount in stream.audit.counted.values()
        if amount.variable is not None
    }
    assert read
    assert [(stream, name) for stream, name, job in read if f'"{name}"' not in job.read_text()] == []
