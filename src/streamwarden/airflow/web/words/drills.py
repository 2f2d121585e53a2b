"""What a list says of a drill, in words, and how a drill is searched for. Pure."""

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
    said = " ".join((spec.name, spec.stream, spec.breaks, fault_words(spec), spec.description, *spec.tags))
    return has_words(said, text)


def has_words(said: str, text: str) -> bool:
    """Whether every word of `text` is somewhere in `said`, whatever its case."""
    return all(word in said.lower() for word in text.lower().split())


def _spaced(variant: str) -> str:
    return variant.replace("_", " ")
