"""Keeps the incidents of settings that cost too much, for all streams."""

from collections.abc import Iterator

from streamwarden.errors import StoreError, StreamwardenError
from streamwarden.health.verdict import Verdict
from streamwarden.services.analysis.tuning import gather
from streamwarden.services.incidents.incident_keeper import keep
from streamwarden.services.workspace import Workspace
from streamwarden.tuning.advisor import advise
from streamwarden.tuning.proposals.verdicts import advice_verdicts


def follow_advice(space: Workspace, now: float) -> tuple[tuple[Verdict, ...], tuple[str, ...]]:
    """Judge the settings of every stream and query; open, update and resolve their incidents.

    Returns the verdicts, and what could not be judged. Raises StoreError.
    """
    verdicts: list[Verdict] = []
    problems: list[str] = []
    for name in space.catalog().streams:
        try:
            verdicts += _of_stream(space, name, now)
        except StoreError:
            raise
        except (StreamwardenError, OSError) as error:
            problems.append(f"{name}: {error}")
    keep(space.store, verdicts, now)
    return tuple(verdicts), tuple(problems)


def _of_stream(space: Workspace, name: str, now: float) -> Iterator[Verdict]:
    drills, thresholds = tuple(space.drills().values()), space.thresholds()
    for spec in space.queries(name):
        history = gather(spec, space.store, drills, now, thresholds)
        yield from advice_verdicts(spec.name, advise(history), now)
