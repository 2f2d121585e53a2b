"""The twin of a stream that has run: a comparison without a drill, for runs that a test has made anyway."""

from __future__ import annotations

from pathlib import Path

from streamwarden.drills.parts import OracleKind, VerificationSpec
from streamwarden.drills.ports import ForkView
from streamwarden.drills.twin import TwinReport
from streamwarden.services.twins.witness import Witness
from streamwarden.stream import StreamSpec
from support.verdicts import recorded


def compared_with_twin(spec: StreamSpec, home: Path) -> TwinReport:
    """The comparison of a run that began with an empty checkpoint and has ended, by its twin alone.

    Args:
        home: folder of the twins.
    """
    run = ForkView(
        stream=spec.name,
        origin=spec.name,
        checkpoint=spec.checkpoint,
        output=spec.sink.place,
        batch=None,
        unseen=0,
        batches_left=None,
        input_digest="",
        oracles=(OracleKind.TWIN,),
        spec=spec,
    )
    starts = recorded(spec.name)
    return Witness(run, home, VerificationSpec(), starts=starts, first=0, within=300.0).report()


def assert_the_twin_agrees(spec: StreamSpec, home: Path) -> TwinReport:
    """The run wrote what its twin writes, and something at all."""
    twin = compared_with_twin(spec, home)
    assert twin.outcome.exactly_once, twin.outcome.to_dict()
    assert (twin.twins, twin.left_out) == (1, ())
    return twin
