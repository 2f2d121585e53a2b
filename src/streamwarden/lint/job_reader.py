"""Reads a job's text for the names of the methods that it calls. The file is parsed and never run.

The names show which stateful operators and which sinks a job has, and often how many queries it starts. What bounds an
operator's state depends on how the data flows, and only the logical plan shows that: here it is unknown. The modules
that a job imports are not read.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Final

from streamwarden.lint.batch_id import depends_on_id
from streamwarden.lint.chains import WRITER, chains
from streamwarden.lint.facts import Bound, JobFacts, Operator, OperatorKind, SinkUse
from streamwarden.lint.finding import FactOrigin
from streamwarden.lint.named_places import named_inputs, named_queries
from streamwarden.lint.processors import bound_of
from streamwarden.lint.query_count import TRUSTED, count_queries

_OPERATORS: Final = {
    **dict.fromkeys(("groupBy", "groupby", "rollup", "cube"), OperatorKind.AGGREGATION),
    **dict.fromkeys(("dropDuplicates", "drop_duplicates", "distinct"), OperatorKind.DEDUPLICATION),
    "dropDuplicatesWithinWatermark": OperatorKind.DEDUPLICATION,
    "transformWithState": OperatorKind.PROCESSOR,
    "transformWithStateInPandas": OperatorKind.PROCESSOR,
    "applyInPandasWithState": OperatorKind.GROUP_STATE,
}
"""Method -> the operator that it makes of a stream. `join` is missing: strings and paths have that method, too."""

_OF_GROUPS: Final = frozenset({"transformWithState", "transformWithStateInPandas", "applyInPandasWithState"})
"""Methods that replace the aggregation which `groupBy` alone would lead to."""

_STATE: Final = re.compile(r"^[^\S\n]*(?:#+[^\S\n]*)?State\b.*(:|$)", re.MULTILINE)


def read_job(path: str, text: str) -> JobFacts:
    """Read facts on state, sinks and queries from a job's text. Never raises: the facts name the problem."""
    try:
        tree = ast.parse(text, filename=PurePath(path).name)
        module = any(isinstance(node, ast.FunctionDef) and node.name == "build" for node in tree.body)
        return JobFacts(
            path=path,
            documented=_STATE.search(ast.get_docstring(tree) or "") is not None,
            module=module,
            queries=1 if module else count_queries(tree),
            operators=tuple(_operators(tree)),
            sinks=tuple(_sinks(tree)),
            named=tuple(named_queries(tree)),
            inputs=tuple(named_inputs(tree)),
            reads_rows=_reads_rows(tree),
        )
    except (SyntaxError, ValueError, RecursionError) as error:
        return JobFacts(path=path, problem=f"it cannot be parsed: {error}", parsed=False)


def _operators(tree: ast.Module) -> Iterator[Operator]:
    bound, why = bound_of(tree)
    methods = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = {func for func in methods if isinstance(func, ast.Attribute) and func.attr in _OPERATORS}
    processed = [func.value.func for func in calls if func.attr in _OF_GROUPS and isinstance(func.value, ast.Call)]
    for func in sorted(calls.difference(processed), key=lambda func: func.end_lineno or 0):
        kind = _OPERATORS[func.attr]
        yield Operator(
            kind=kind,
            name=func.attr,
            bound=bound if kind is OperatorKind.PROCESSOR else Bound.UNKNOWN,
            why=why if kind is OperatorKind.PROCESSOR else "only the logical plan shows what bounds it",
            origin=FactOrigin.JOB,
            where=f"line {func.end_lineno}",
        )


def _reads_rows(tree: ast.Module) -> bool | None:
    """Whether the text uses `read_rows`; None if it does not, and imports code that may use it."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    modules = {(node.module or ".") for node in imports if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    if "read_rows" in names:
        return True
    return False if {module.partition(".")[0] for module in modules} <= TRUSTED else None


def _sinks(tree: ast.Module) -> Iterator[SinkUse]:
    """One for each `writeStream`."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for chain in chains(tree, WRITER):
        yield _sink(chain.line, dict(chain.calls), functions)


def _sink(line: int, calls: Mapping[str, ast.Call], functions: Mapping[str, ast.FunctionDef]) -> SinkUse:
    if "foreachBatch" in calls:
        given = next(iter(calls["foreachBatch"].args), None)
        function = functions.get(given.id) if isinstance(given, ast.Name) else given
        uses = depends_on_id(function, functions) if isinstance(function, ast.FunctionDef | ast.Lambda) else None
        return SinkUse(format="foreachBatch", line=line, uses_batch_id=uses)
    if "foreach" in calls or "toTable" in calls:
        return SinkUse(format="foreach" if "foreach" in calls else "table", line=line)
    if "format" not in calls:
        return SinkUse(format="parquet" if "start" in calls else None, line=line)
    given = next(iter(calls["format"].args), None)
    constant = given.value if isinstance(given, ast.Constant) else None
    return SinkUse(format=constant if isinstance(constant, str) else None, line=line)
