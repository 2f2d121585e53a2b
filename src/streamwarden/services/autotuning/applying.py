"""Tries advised settings, and writes them into the stream's file if the trial shows a gain."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.redaction import redacted
from streamwarden.services.autotuning.proposing import Advised
from streamwarden.services.autotuning.trying import try_settings
from streamwarden.services.upgrades.journals import NEW, OLD, Upgrades
from streamwarden.services.upgrades.proposal import Proposal
from streamwarden.services.upgrades.upgrading import require_none_open
from streamwarden.tuning.proposals.trial import Trial, Verdict, judge

TRIAL: Final = "trial.json"
FORKS: Final = "forks"

Try = Callable[..., Trial]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Args:
    folder: of the trial: its figures, its logs, and both texts of the file.
    written: whether the stream's file has the settings now.
    """

    trial: Trial
    verdict: Verdict
    folder: Path
    written: bool


def carry_out(
    advised: Advised, *, write: bool, show: Callable[[Trial, Path], None], try_out: Try = try_settings
) -> Outcome:
    """Try the proposal; write it, if that is wanted and the trial shows a gain.

    Args:
        show: is given the trial before anything is written.

    Raises CheckpointError if the settings are refused, or an upgrade is running or was interrupted; ConfigError if the
    file was changed meanwhile; what a fork and a twin raise.
    """
    proposal = advised.proposal
    assert proposal is not None, "the caller has looked"
    upgrades = Upgrades.of(proposal.before)
    with upgrades.alone():
        require_none_open(upgrades)
        folder = upgrades.new(time.time())
        disk.replace(folder / OLD, proposal.old_text, mode=disk.PRIVATE)
        disk.replace(folder / NEW, proposal.new_text, mode=disk.PRIVATE)
        trial = try_out(proposal, folder / FORKS, batches=advised.batches, size=advised.size)
        disk.replace(folder / TRIAL, json.dumps(redacted(asdict(trial)), indent=1), mode=disk.PRIVATE)
        show(trial, folder)
        verdict = judge(trial)
        if verdict.refused:
            raise _refused(proposal, verdict, folder)
        if write and verdict.gain:
            _write(proposal)
        return Outcome(trial=trial, verdict=verdict, folder=folder, written=write and verdict.gain)


def _refused(proposal: Proposal, verdict: Verdict, folder: Path) -> CheckpointError:
    return CheckpointError(
        f"the advised settings of {proposal.before.name} are refused: {verdict.why}",
        expected="the same rows of the same input, under the present settings and under the advised ones",
        where=str(folder / TRIAL),
        next_step="compare the samples there. Rows that came late, and jobs that look at whole batches, depend on "
        "where a batch ends: if the other output is right, too, change the setting by hand",
    )


def _write(proposal: Proposal) -> None:
    file = Path(proposal.before.file)
    if file.read_text(encoding="utf-8") != proposal.old_text:
        raise ConfigError(
            "the stream's file was changed while the settings were tried",
            expected="the file that the settings were tried with",
            where=str(file),
            next_step="run `streamwarden advise` again",
        )
    disk.replace(file, proposal.new_text)
