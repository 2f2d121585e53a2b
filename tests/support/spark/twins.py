"""The twin of a stream that has run: a comparison without a drill, for runs that a test has made anyway."""

from __future__ import annotations

from pathlib import Path

from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.records.sections import OracleKind, VerificationSpec
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.records.types import ForkView
from streamwarden.lifecycle.forks.started import fork_queries
from streamwarden.services.twins.comparison import Witness
from streamwarden.services.twins.scripts import ScriptWitness
from streamwarden.stream.spec import StreamSpec
from support.spark.verdicts import recorded


def compared_with_twin(
    spec: StreamSpec, home: Path, *, after: int | None = None, key: tuple[str, ...] = ()
) -> TwinReport:
    """The comparison of a run that has ended, by its twin alone.

    Args:
        home: folder of the twins.
        after: the batch after which `making.keep_start` kept the run in `home`: the twin goes on from there. None: it
            begins with an empty checkpoint, as that of a script always does.
        key: `verification.key`.
    """
    run = ForkView(
        stream=spec.name,
        origin=spec.name,
        checkpoint=spec.checkpoint,
        output=spec.sink.place,
        batch=after,
        unseen=0,
        batches_left=None,
        input_digest="",
        oracles=(OracleKind.TWIN,),
        spec=spec,
    )
    if spec.fork is not None:
        by_query = {query.name: recorded(spec.name, query.name) for query in fork_queries(spec)}
        return ScriptWitness(run, home, VerificationSpec(key=key), by_query, within=300.0).report()
    starts, first = recorded(spec.name), 0 if after is None else after + 1
    return Witness(run, home, VerificationSpec(key=key), starts=starts, first=first, within=300.0).report()


def assert_the_twin_agrees(spec: StreamSpec, home: Path, *, of: str, after: int | None = None) -> TwinReport:
    """The run, which was killed, wrote what its twin writes, and something at all.

    Args:
        of: the catalogue's stream that `spec` is a small one of. Its own oracle judges the same run in another test.
        after: see `compared_with_twin`.
    """
    assert spec.name.startswith(of)
    twin = compared_with_twin(spec, home, after=after)
    assert twin.outcome.exactly_once, twin.outcome.to_dict()
    assert (twin.twins, twin.left_out) == (1, ())
    assert twin.outcome.expected > 0
    return twin


def assert_both_agree(run: DrillRun, *, of: str) -> None:
    """The job's own oracle and the twin both judged a drill that passed, and neither found a difference.

    Args:
        of: the catalogue's stream whose job, source and sink were drilled.
    """
    assert run.passed, run.reason
    assert run.facts["reconciliation"]["exactly_once"], of
    twin = run.facts["twin"]
    assert (twin["alone"], twin["twins"], twin["left_out"]) == (False, 1, [])
    assert twin["outcome"]["exactly_once"]
    assert twin["outcome"]["expected"] == twin["outcome"]["actual"] > 0
