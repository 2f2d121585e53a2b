"""Reads a stream's job for what its text shows. Each driver imports this: it brings no health check and no fault."""

from pathlib import Path

from streamwarden.lint.facts import JobFacts
from streamwarden.lint.job_reader import read_job
from streamwarden.stream.spec import StreamSpec


def job_facts(spec: StreamSpec) -> JobFacts:
    """Facts from the job's text; an unreadable file is a problem, not an error."""
    try:
        text = Path(spec.job).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return JobFacts(path=spec.job, problem=f"it cannot be read: {error}")
    return read_job(spec.job, text)
