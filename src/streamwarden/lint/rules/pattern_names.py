"""SW115: names of input files that Spark takes for patterns."""

from collections.abc import Iterable

from streamwarden.lint.facts import Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule


def judge(facts: Facts) -> Iterable[Finding]:
    """The files that are in the source's folders now."""
    names = facts.pattern_names
    if names:
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        observed = f"the source has the file {names[0]}{more}, whose name Spark takes for a pattern"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, f"{facts.file}: source.path")


RULE = Rule(
    id="SW115",
    title="Files that Spark takes for patterns",
    severity=Severity.WARNING,
    reason=(
        "Spark 4.3 reads the other files of a batch once more for each file whose name has one of `*?[]{}` or a "
        "backslash. The check `files_read_again` is CRITICAL when that has happened."
    ),
    reads="The names in the folders of a source of kind `files`, if `lint` reads more than declarations.",
    remedy="Give such files other names before they are published, or read one file a batch.",
    judge=judge,
)
