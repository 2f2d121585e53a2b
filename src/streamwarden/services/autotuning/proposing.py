"""What the advice would change of a stream's file: the changes, and the file as a proposal."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.sources import files_read
from streamwarden.errors import StreamwardenError
from streamwarden.health.thresholds import Thresholds
from streamwarden.progress import Progress
from streamwarden.services.upgrades.editing import edited, unified_diff, value_at
from streamwarden.services.upgrades.proposal import Proposal, loaded, why_not_tried
from streamwarden.stream.spec import StreamSpec
from streamwarden.tuning.history import History
from streamwarden.tuning.proposals.changes import TRIGGER, Change, changes_of, key_of, tried, values_of, without_trigger
from streamwarden.tuning.proposals.trial import batches_a_trigger, how_many, largest_size
from streamwarden.tuning.recommendation import Recommendation
from streamwarden.units import parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """Args:
    changes: all that is advised, also what a person has to do.
    proposal: the file with the changes that can be tried; None: there is none.
    batches: how many of the newest batches a trial executes; size: how many of them are executed as one, with a
        longer trigger.
    """

    changes: tuple[Change, ...]
    proposal: Proposal | None = None
    batches: int = 0
    size: int = 1

    @property
    def diff(self) -> str:
        """The changes of the file, as a unified diff; empty if there are none."""
        if self.proposal is None:
            return ""
        file = Path(self.proposal.before.file).name
        return unified_diff(self.proposal.old_text, self.proposal.new_text, file)


def propose_settings(history: History, advice: Sequence[Recommendation], thresholds: Thresholds) -> Advised:
    """What the advice for a stream would change of its file; of a stream without one, nothing can be tried.

    Raises ConfigError if the file cannot be edited, or would be broken.
    """
    spec, reports = history.spec, history.with_rows()
    text = _text(spec)
    changes = changes_of(spec, advice, lambda key: value_at(text, key))
    wanted = next((change.after for change in tried(changes) if change.key == key_of(TRIGGER)), None)
    size = 1 if wanted is None else _size(history, reports, parse_duration(wanted))
    if wanted is not None and size == 1:
        limit = f"a batch reads at most {spec.source.limit} files or records, and some have as many already"
        changes = without_trigger(changes, limit)
    if not text or not tried(changes) or why_not_tried(spec) is not None:
        return Advised(changes=changes)
    new_text = edited(text, values_of(tried(changes)), spec.file)
    proposal = Proposal(before=spec, after=loaded(new_text, spec, thresholds), old_text=text, new_text=new_text)
    batches = how_many([(report.at, report.rows) for report in reversed(reports)], size)
    return Advised(changes=changes, proposal=proposal, batches=batches, size=size)


def _text(spec: StreamSpec) -> str:
    """The text of the stream's file; empty if it runs without one."""
    try:
        return Path(spec.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _size(history: History, reports: Sequence[Progress], trigger: float) -> int:
    """How many of the present batches a longer trigger makes one of; 1: a limit of the source keeps them apart."""
    period = statistics.median(later.at - earlier.at for earlier, later in pairwise(reports))
    size = batches_a_trigger(period, trigger)
    return largest_size(_counts(history, reports), size, history.spec.source.limit)


def _counts(history: History, reports: Sequence[Progress]) -> list[int]:
    """Files or records of each batch, as the limit of the source counts them."""
    spec = history.spec
    if spec.source.limit is None or spec.source.path is None:
        return [report.rows for report in reports]
    try:
        return [len(files) for files in files_read(checkpoint_of(spec)).values()]
    except StreamwardenError:
        return [spec.source.limit]
