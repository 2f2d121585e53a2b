"""Which streams a drill can judge. `validate` and the drill itself check it before anything is made."""

from __future__ import annotations

from pathlib import Path

from streamwarden.errors import JobError, VerificationError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.lifecycle.job_files import has_build
from streamwarden.services.forks.spec import forked_spec
from streamwarden.services.verifying.verification import load_oracle
from streamwarden.stream import StreamSpec

_ANYWHERE = Places.under("/fork")


def require_verdict(stream: StreamSpec) -> None:
    """Raises VerificationError if a drill could break a fork of the stream but never verify its output.

    That is the case for a stream whose job is a whole script, and for one without an oracle.
    """
    job = Path(stream.job)
    try:
        redirected = has_build(job)
    except JobError as error:
        raise VerificationError(
            error.observed, expected="the job's file", where=error.where, next_step=error.next_step
        ) from error
    if not redirected:
        raise VerificationError(
            f"the job of {stream.name} is a script, which chooses its checkpoint and its output itself: a fork of it "
            "would write to the stream's own",
            expected="a job with build(spark, spec), whose checkpoint and output Streamwarden sets",
            where=stream.job,
            next_step="move the query of the script into build(), or drill another stream",
        )
    load_oracle(job)


def require_fork(stream: StreamSpec, feed: Feed) -> None:
    """Raises CheckpointError if the input or the output of a fork of the stream cannot be redirected."""
    forked_spec(stream, _ANYWHERE, feed)
