"""From advice to the stream's file: what is proposed, and when it is written. Trials by a real Spark are in
tests/spark/proofs/test_advice_trial.py."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.lifecycle.upgrades.preflight import OutputDifference
from streamwarden.services.autotuning.applying import TRIAL, Outcome, carry_out
from streamwarden.services.autotuning.proposing import Advised, propose_settings
from streamwarden.services.upgrades.proposal import Proposal, loaded
from streamwarden.stream.spec import StreamSpec
from streamwarden.tuning.history import History
from streamwarden.tuning.proposals.changes import How
from streamwarden.tuning.proposals.trial import Execution, Pair, Trial
from streamwarden.tuning.recommendation import Decision, Recommendation
from support.checkpoints.recorded import Unpack
from support.streams.advised import FILE, declare_short_trigger
from support.streams.tuning import batch, history
from support.streams.upgrades import lay_out

LONGER = Recommendation(
    topic="trigger", status=Decision.CHANGE, says="", settings={"trigger.processing_time": "16 seconds"}, costs=40.0
)


@pytest.fixture
def spec(tmp_path: Path, unpack: Unpack) -> StreamSpec:
    made = lay_out(tmp_path / "project", unpack)
    text = declare_short_trigger(tmp_path / "project").read_text()
    return loaded(text, made, DEFAULTS)


def of(spec: StreamSpec) -> History:
    return history([batch(number, rows=30) for number in range(30)], spec)


def proposed(spec: StreamSpec, *advice: Recommendation) -> Advised:
    return propose_settings(of(spec), advice or (LONGER,), DEFAULTS)


def tried(after: float = 1.0, output: OutputDifference | None = None) -> Trial:
    def side(seconds: float) -> Execution:
        return Execution(seconds=seconds, longest=seconds, state=1, rows=1)

    pairs = tuple(Pair((number, number), side(2.0), side(after)) for number in range(6))
    return Trial(pairs=pairs, output=output or OutputDifference(old=9, new=9))


def carried_out(advised: Advised, trial: Trial, *, write: bool = True, asked: list[Any] | None = None) -> Outcome:
    def try_out(proposal: Proposal, into: Path, **bounds: int) -> Trial:
        (asked if asked is not None else []).append(bounds)
        return trial

    return carry_out(advised, write=write, show=lambda seen, folder: None, try_out=try_out)


def test_a_proposal_is_the_file_with_one_line_changed_and_its_comments(spec: StreamSpec) -> None:
    """A batch each ten seconds: two of them are one of a trigger of 16 s."""
    advised = proposed(spec)
    assert advised.proposal is not None
    assert advised.proposal.new_text == FILE.replace("1 second}", "16 seconds}")
    assert advised.proposal.after.trigger.processing_time == 16.0
    assert [line for line in advised.diff.splitlines() if line[0] in "+-"][2:] == [
        "-trigger: {processing_time: 1 second}   # as often as it can",
        "+trigger: {processing_time: 16 seconds}   # as often as it can",
    ]
    assert (advised.size, advised.batches) == (2, 20)
    assert Path(spec.file).read_text() == FILE, "nothing is written yet"


def test_a_limit_of_the_source_that_batches_have_reached_leaves_the_trigger_to_a_person(spec: StreamSpec) -> None:
    text = FILE.replace("origin/input}", "origin/input, max_files_per_trigger: 1}")
    declare_short_trigger(Path(spec.project), text)
    advised = proposed(loaded(text, spec, DEFAULTS))
    assert [change.how for change in advised.changes] == [How.PERSON]
    assert (advised.proposal, advised.diff) == (None, "")


def test_a_stream_that_runs_without_a_file_has_no_proposal(spec: StreamSpec) -> None:
    Path(spec.file).unlink()
    advised = proposed(spec)
    assert (advised.proposal, len(advised.changes)) == (None, 1)


def test_a_gain_is_written_and_its_figures_are_kept(spec: StreamSpec) -> None:
    advised, asked = proposed(spec), []
    outcome = carried_out(advised, tried(), asked=asked)
    assert outcome.written
    assert Path(spec.file).read_text() == FILE.replace("1 second}", "16 seconds}")
    assert asked == [{"batches": 20, "size": 2}]
    assert {path.name for path in outcome.folder.iterdir()} == {TRIAL, "before.yaml", "after.yaml"}


@pytest.mark.parametrize(("after", "write"), [(2.0, True), (3.0, True), (1.0, False)])
def test_without_a_gain_or_without_being_asked_nothing_is_written(spec: StreamSpec, after: float, write: bool) -> None:
    assert not carried_out(proposed(spec), tried(after), write=write).written
    assert Path(spec.file).read_text() == FILE


def test_another_output_is_an_error_that_says_what_to_do(spec: StreamSpec) -> None:
    """Negative control: as fast as it is, it is not written."""
    advised = proposed(spec)
    with pytest.raises(CheckpointError, match="are refused: the output differs: 3 rows with other values") as error:
        carried_out(advised, tried(output=OutputDifference(old=9, new=9, changed=3)))
    assert error.value.where is not None
    assert Path(error.value.where).exists()
    assert "change the setting by hand" in error.value.next_step
    assert Path(spec.file).read_text() == FILE


def test_a_file_that_changed_during_the_trial_is_left_alone(spec: StreamSpec) -> None:
    advised = proposed(spec)
    Path(spec.file).write_text(FILE + "# mine\n")
    with pytest.raises(ConfigError, match="changed while the settings were tried"):
        carried_out(advised, tried())
    assert Path(spec.file).read_text() == FILE + "# mine\n"


def test_two_trials_of_a_stream_do_not_run_at_once(spec: StreamSpec) -> None:
    advised = proposed(spec)

    def try_out(proposal: Proposal, into: Path, **bounds: int) -> Trial:
        with pytest.raises(CheckpointError, match="another process"):
            carried_out(advised, tried())
        return tried()

    assert partial(carry_out, try_out=try_out)(advised, write=True, show=lambda seen, folder: None).written
