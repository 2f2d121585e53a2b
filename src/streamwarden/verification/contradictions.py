"""Facts of a checkpoint that contradict other facts of the run, whatever the job.

With false facts a run could lower what is expected of it: a timeout that never comes because all batches claim the same
time, rows that a source claims never to have produced, rows that are late because their file claims to have been read
last.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from streamwarden.verification.batches import some
from streamwarden.verification.comparing.starts import SLACK, invented_times, require_known, restarts
from streamwarden.verification.oracle import RateFacts, RunFacts

_CHANGED_STATE: Final = "state that changed its schema where no driver started"


def contradictions(facts: RunFacts) -> list[str]:
    """Contradictions with the launcher's record of the run, or among the facts, as problems.

    Raises VerificationError if a start whose logs are unknown could explain one of them.
    """
    return [
        *some("batch that was planned while its driver did not run", invented_times(facts.starts, facts.times)),
        *some(_CHANGED_STATE, _changed_state(facts)),
        *some("seconds of the rate source that the clock contradicts", _rate_cases(facts.rate, facts.times)),
    ]


def disorder(files: Mapping[int, Sequence[Path]], modified: Mapping[Path, int]) -> list[str]:
    """Files that were read in another order than Spark's, if all input existed before the first of these batches.

    Spark reads the files of a folder by their modification time, oldest first. A file that is read after its turn may
    have rows that are late by then, and that are not expected.

    Args:
        modified: file -> modification time, Unix milliseconds.
    """
    newest: dict[Path, tuple[int, int]] = {}
    cases = []
    for batch in sorted(files):
        here = [path for path in files[batch] if path in modified]
        for path in here:
            at, earlier = newest.get(path.parent, (modified[path], batch))
            if modified[path] < at:
                cases.append(f"{path.name} in batch {batch}, and a newer one in batch {earlier}")
        for path in here:
            newest[path.parent] = max(newest.get(path.parent, (0, batch)), (modified[path], batch))
    return some("input file that was read after its turn", cases)


def _changed_state(facts: RunFacts) -> list[str]:
    """Only another version of the job writes another schema, and only a start can bring one."""
    begun = restarts(facts.starts).first
    cases = [f"batch {batch}" for batch in sorted(facts.state)[1:] if batch not in begun]
    require_known(facts.starts, some(_CHANGED_STATE, cases))
    return cases


def _rate_cases(rate: RateFacts | None, times: Mapping[int, int]) -> list[str]:
    """Each batch ends with the second in which it was planned, by the source's own clock."""
    if rate is None or not times:
        return []
    first = min(times)
    cases = []
    if first == 0 and abs(times[0] - rate.began_ms) > SLACK * 1000:
        apart = (times[0] - rate.began_ms) / 1000
        cases.append(f"it began {apart:.0f} s before batch 0 was planned")
    for batch in sorted(times):
        apart = times[batch] / 1000 - (rate.began_ms / 1000 + rate.ends.get(batch, 0))
        if batch in rate.ends and abs(apart) > SLACK:
            cases.append(f"batch {batch} ends at second {rate.ends[batch]}, {apart:.0f} s before it was planned")
    return cases
