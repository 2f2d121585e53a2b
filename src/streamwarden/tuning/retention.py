"""How long the manifest of a file sink should name a file: `retention`, Spark's option of the sink."""

from typing import Final

from streamwarden.health.checks.state.metadata_growth import CHECK
from streamwarden.tuning.history import History
from streamwarden.tuning.recommendation import Decision, Number, Recommendation, unknown
from streamwarden.units import DAY, MB, format_count, format_size

TOPIC: Final = "retention"
CURES: Final = CHECK.name
SMALL: Final = 16 * MB
"""Bytes of a manifest that nobody has to think of yet."""


def advise(history: History) -> Recommendation:
    """Recommend a retention for a manifest that becomes critical within a year; Spark's own default is for ever."""
    if not history.spec.sink.MANIFEST:
        says = "the sink has no manifest, so there is nothing to forget"
        return Recommendation(topic=TOPIC, status=Decision.KEEP, says=says)
    manifest = next((log for log in history.logs if log.name.startswith("_")), None)
    if manifest is None:
        return unknown(TOPIC, "too little history: the manifest has not been compacted yet, or cannot be read")
    numbers = (
        Number("manifest", manifest.size, "bytes", "newest compact file of `_spark_metadata`"),
        Number("files", manifest.entries, "", "that it names" if manifest.exact else "estimated from its beginning"),
        Number("growth", (manifest.growth or 0.0) * DAY, "bytes a day", "the last two compact files"),
    )
    given = next((value for key, value in history.spec.sink.options.items() if key.lower() == "retention"), None)
    if given is not None:
        says = f"the manifest forgets files after {given}: it has {format_size(manifest.size)}."
        return Recommendation(topic=TOPIC, status=Decision.KEEP, says=says, numbers=numbers)
    critical = history.in_force(CHECK.name)["critical"]
    days = (critical - manifest.size) / manifest.growth / DAY if manifest.growth else float("inf")
    named = f"The manifest names {format_count(manifest.entries, 'file')} in {format_size(manifest.size)}"
    if manifest.size < SMALL or days > 365:
        says = f"{named} and every tenth batch rewrites it: leave it."
        return Recommendation(topic=TOPIC, status=Decision.KEEP, says=says, numbers=numbers)
    says = (
        f"{named}, and nothing ever leaves it: it is critical in {max(0.0, days):,.0f} days. Set how long readers need "
        "a file. After that time those that honour the manifest no longer see it, and a drill or an audit of older "
        "batches is not possible."
    )
    return Recommendation(
        topic=TOPIC, status=Decision.CHANGE, says=says, numbers=numbers, settings={"sink.options.retention": "30 days"}
    )
