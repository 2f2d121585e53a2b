"""The reference page of the lint rules, from the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamwarden.lint.rule import Rule
from streamwarden.lint.rules import RULES

_HEAD: Final = """\
# Rules of `streamwarden lint`

Ten rules of state management, and three for jobs that do not fit their stream's file. `streamwarden lint` checks all
streams, or one, against them. `validate` and the page of each stream's DAG show the findings that need only its file
and its job.

An **error** will fail, lose or duplicate rows, or outgrow its memory. A **warning** works now and will cause trouble
later. **Unknown** is neither: nothing that was read shows whether the stream follows the rule. `lint` exits with 1 if
there is an error, or with `--strict` if there is a warning. `validate` never fails for a finding: the file is usable.

## What is read

| source | what it is |
|---|---|
| declaration | the stream's YAML file, the drills', and the Spark settings that follow |
| job file | its text, parsed and never run: the names of the methods that it calls |
| logical plan | with `--plan`: the job's query is built in a local Spark, analyzed, and not started |
| checkpoint | operators, watermark and bytes, if the query has run |
| history | batches and drills in the store |

Operators are taken from the best source there is: the plan, else the checkpoint of a query that has run, else the job's
text. The text shows which stateful methods a job calls, but not what bounds their state: without a plan or checkpoint,
the rules that depend on that report `unknown`. Each finding names its source and the place in it.
"""


def page(rules: Sequence[Rule] = RULES) -> str:
    """The whole page, in Markdown."""
    table = ["## All rules", "", "| rule | what | severity |", "|---|---|---|"]
    table += [f"| [{rule.id}](#{_anchor(rule)}) | {rule.title} | {rule.severity} |" for rule in rules]
    return "\n".join([_HEAD, *table, "", *(_section(rule) for rule in rules)])


def _section(rule: Rule) -> str:
    parts = [
        f"## {rule.id} {rule.title}",
        f"Severity: {rule.severity}, unless it says otherwise.",
        f"**Why.** {rule.reason}",
        f"**Reads.** {rule.reads}",
        f"**Remedy.** {rule.remedy}",
    ]
    return "\n\n".join(parts) + "\n"


def _anchor(rule: Rule) -> str:
    kept = "".join(each for each in f"{rule.id} {rule.title}".lower() if each.isalnum() or each in " -")
    return kept.replace(" ", "-")
