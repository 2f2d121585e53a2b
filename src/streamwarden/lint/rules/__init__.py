"""The rules, one module each, in the order in which `lint` shows them."""

from typing import Final

from streamwarden.lint.rule import Rule
from streamwarden.lint.rules import (
    backend,
    cleanup,
    contradiction,
    documentation,
    drills,
    encoding,
    lossy_options,
    metrics,
    pattern_names,
    quarantine,
    queries,
    sink,
    snapshots,
    unbounded,
    versions,
)

RULES: Final[tuple[Rule, ...]] = (
    unbounded.RULE,
    backend.RULE,
    snapshots.RULE,
    metrics.RULE,
    versions.RULE,
    cleanup.RULE,
    drills.RULE,
    encoding.RULE,
    sink.RULE,
    documentation.RULE,
    queries.RULE,
    contradiction.RULE,
    quarantine.RULE,
    lossy_options.RULE,
    pattern_names.RULE,
)
