"""What `up` says of the streams of its project."""

import pytest

from streamwarden.cli.commands.project.local import announce
from support.streams.projects import Project


def test_a_stream_that_was_stopped_on_purpose_is_named_because_unpausing_does_not_start_it(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.stream("a")
    announce(project.catalog(), {"a", "removed"}, project.root)
    shown = capsys.readouterr().out
    assert ": 1 stream; unpause the DAG of a stream to start it" in shown
    assert "a was stopped on purpose; the DAG start_stream starts it again" in shown
    assert "removed" not in shown
