"""What a list says of a drill: what it breaks, in words, and when it runs next. Pure."""

from datetime import UTC, datetime

from streamwarden.drills.records.sections import DrillTarget
from streamwarden.drills.spec import DrillSpec


def fault_words(spec: DrillSpec) -> str:
    """`a crash in mid-batch (moment: after state)`, of several faults one after the other."""
    return ", then ".join(
        f"{fault.chosen.event}{f' ({_spaced(fault.variant)})' if fault.variant else ''}" for fault in spec.sequence
    )


def broken_words(spec: DrillSpec) -> str:
    """What is broken: `a fork of orders`, `the live stream orders`."""
    return f"the live stream {spec.stream}" if spec.target is DrillTarget.PRODUCTION else f"a fork of {spec.stream}"


def fits(spec: DrillSpec, text: str) -> bool:
    """Whether every word of `text` is somewhere in what the drill is called, breaks and says."""
    said = " ".join((spec.name, spec.stream, spec.breaks, fault_words(spec), spec.description, *spec.tags)).lower()
    return all(word in said for word in text.lower().split())


def next_run(schedule: str | None, now: float) -> float | None:
    """When the schedule (UTC) is due next after `now`, Unix seconds; None: it has no times."""
    from croniter import CroniterError, croniter  # imported here, as everywhere: most files have no schedule

    try:
        return float(croniter(schedule, datetime.fromtimestamp(now, UTC)).get_next(float)) if schedule else None
    except (CroniterError, ValueError, KeyError):
        return None


def _spaced(variant: str) -> str:
    return variant.replace("_", " ")
