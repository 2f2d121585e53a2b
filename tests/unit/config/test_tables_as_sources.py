"""What the file of a stream that reads a table may not say, and what it needs."""

import pytest

from streamwarden.config.stored_spec import spec_from_dict, spec_to_dict
from support.streams.projects import Project


def reading(project: Project, source: str, more: str = "") -> str:
    """The error of such a stream's file."""
    path = project.stream("a")
    path.write_text(path.read_text().replace("source: {path: input/a}", f"source: {source}") + more)
    return str(project.error(path))


ENVIRONMENT = '\nspark: {conf: {spark.jars.packages: "io.delta:delta-spark_4.3_2.13:5.0.0"}}\n'
"""Jars of the stream's own, so that the version of its Spark is not asked."""


def test_a_table_has_no_quarantine(project: Project) -> None:
    quarantined = f"{ENVIRONMENT}quarantine: quarantine/a\n"
    assert "a table does not say which of its rows were read" in reading(
        project, "{kind: delta, path: lake/a}", quarantined
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{kind: delta, path: 'hdfs:///lake/a'}", "source.path"),
        ("{kind: delta, path: lake/a, max_files_per_trigger: 0}", "at least 1"),
        ("{kind: delta, path: lake/a, starting_version: -1}", "0 or more"),
        ("{kind: delta, path: lake/a, max_bytes_per_trigger: many}", "max_bytes_per_trigger"),
        ("{kind: delta, path: lake/a, options: {readChangeFeed: 'true'}}", "its rows are changes"),
        ("{kind: delta, path: lake/a, options: {startingTimestamp: '2020-01-01'}}", "starting_version"),
        ("{kind: iceberg, path: lake/a, max_rows_per_trigger: 0}", "at least 1"),
    ],
)
def test_what_no_verifier_could_follow_is_refused(project: Project, source: str, said: str) -> None:
    assert said in reading(project, source, ENVIRONMENT)


def test_a_stream_that_reads_a_table_is_stored_and_loaded_again(project: Project) -> None:
    path = project.stream("a")
    given = "source: {kind: delta, path: lake/a, max_bytes_per_trigger: 1g, starting_version: 3}"
    path.write_text(path.read_text().replace("source: {path: input/a}", given) + ENVIRONMENT)
    spec = project.load(path)
    assert spec.source.path == str(project.data / "lake/a")
    assert spec_from_dict(spec_to_dict(spec)) == spec
