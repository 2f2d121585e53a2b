"""Whether a drill can judge a stream, and by which oracles. `validate` and the drill check it before anything is
made."""

from collections.abc import Collection
from pathlib import Path

from streamwarden.adapters.jvm.environments import require
from streamwarden.checkpoint.spark_support import PROGRAMS
from streamwarden.drills.admission import require_live_fault
from streamwarden.drills.records.sections import DrillTarget, ForkSpec, OracleKind
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import DrillAborted, JobError, VerificationError
from streamwarden.lifecycle.forks.places import Places, require_place
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.lifecycle.job_files import has_build
from streamwarden.services.forks.scripts import is_script, require_script_fork
from streamwarden.services.forks.spec import forked_spec
from streamwarden.services.verifying.oracle_files import load_oracle, oracle_file
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec

_ANYWHERE = Places.under("/fork")


def require_verdict(stream: StreamSpec, feed: Feed, asked: OracleKind) -> tuple[OracleKind, ...]:
    """The oracles that judge a fork of the stream.

    Raises VerificationError if a drill could break a fork but never verify its output: nothing of what is asked for can
    judge it.
    """
    job = Path(stream.job)
    try:
        script = not has_build(job)
    except JobError as error:
        raise VerificationError(
            error.observed, expected="the job's file", where=error.where, next_step=error.next_step
        ) from error
    if script and asked is OracleKind.JOB:
        raise VerificationError(
            f"the job of {stream.name} is a script, whose queries no oracle of a job judges",
            expected="`verification.oracle: twin` or `auto`",
            where=stream.job,
            next_step="remove `verification.oracle` from the drill's file: the twin judges each query of a script",
        )
    obstacle = why_no_twin(stream, feed)
    if script:
        if obstacle is not None:
            raise _no_twin(stream, obstacle, next_step="write a job with build() and an oracle in place of the script")
        return (OracleKind.TWIN,)
    own: tuple[OracleKind, ...] = ()
    if asked is OracleKind.JOB or (asked is OracleKind.AUTO and oracle_file(job).exists()):
        load_oracle(job)
        own = (OracleKind.JOB,)
    if asked is not OracleKind.JOB and obstacle is None:
        return (*own, OracleKind.TWIN)
    if not own:
        without = "" if asked is OracleKind.TWIN else f", and the job has no oracle (there is no {oracle_file(job)})"
        raise _no_twin(stream, f"{obstacle}{without}", next_step="write an oracle for the job")
    return own


def require_target(stream: StreamSpec, drill: DrillSpec, streams: Collection[StreamSpec]) -> None:
    """Raises DrillAborted, CheckpointError, VerificationError or ConfigError if the drill cannot work on what it names
    as its target.

    Args:
        streams: all streams of the project, whose places a fork must not touch.
    """
    if drill.target is DrillTarget.PRODUCTION:
        require_live(stream, drill)
        return
    require_fork(stream, drill.feed, drill.fork)
    require_verdict(stream, drill.feed, drill.verification.oracle)
    if drill.fork.at is not None:
        require_place(stream, drill.fork.at, streams)


def require_live(stream: StreamSpec, drill: DrillSpec) -> None:
    """Raises DrillAborted if the drill may not hit the live stream, VerificationError or ConfigError if no audit could
    judge it."""
    if stream.group is not None:
        raise DrillAborted(
            f"{stream.name} is a stream of the group {stream.group}, whose streams share one JVM",
            expected="a stream with a JVM of its own: a drill on the live stream must hit no other",
            where=f"target of the drill {drill.name}",
            next_step="remove `target: production`: the fork of a drill has a JVM of its own",
        )
    (fault,) = drill.sequence
    require_live_fault(fault.chosen, drill)
    require_audit(stream)


def require_audit(stream: StreamSpec) -> None:
    """Raises VerificationError for a stream whose input or output no audit can read, ConfigError if its Spark cannot
    read state. Whether the query itself can be audited is known only when it is."""
    declared = stream.source.DECLARED and stream.sink.DECLARED
    readable = isinstance(stream.sink, Sink) and stream.sink.audited
    if not (declared and readable):
        opened = "the job opens its source or its sink itself"
        reason = f"an audit cannot read a sink of the kind {stream.sink.kind}" if declared else opened
        raise VerificationError(
            f"{reason}, so that nothing could prove the output of the live stream after the drill",
            expected="a declared source and a declared sink that an audit can read",
            where=stream.file or stream.name,
            next_step="remove `target: production`: a drill on a fork judges this stream",
        )
    require(stream, PROGRAMS["audit"])


def why_no_twin(stream: StreamSpec, feed: Feed) -> str | None:
    """Why no twin can re-execute the batches of a fork; None if one can."""
    if feed is not Feed.ORIGIN:
        return "the fault changes the topic that the fork has read, so that a twin cannot read the same records"
    if stream.trigger.real_time is not None:
        return "the stream runs in real-time mode, whose batches a twin cannot execute again"
    return None


def require_fork(stream: StreamSpec, feed: Feed, wanted: ForkSpec | None = None) -> None:
    """Raises CheckpointError if the input or the output of a fork of the stream cannot be redirected.

    Args:
        wanted: how the fork is made; None: not known yet.
    """
    forked_spec(stream, _ANYWHERE, feed)
    if wanted is not None and is_script(stream):
        require_script_fork(stream, wanted.rewind, wanted.at)


def _no_twin(stream: StreamSpec, observed: str, *, next_step: str) -> VerificationError:
    return VerificationError(
        observed,
        expected="a stream and a fault with which a twin can execute the batches again, or a job with an oracle",
        where=stream.file or stream.name,
        next_step=f"{next_step} and set `verification.oracle: job`, or drill the stream with another fault, such as "
        "`kill_driver`",
    )
