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

from streamwarden.checkpoint.spark_version import TTL_ARGUMENT
from streamwarden.lifecycle.script_queries import WritingFunction
from streamwarden.lint.batch_id import Function, depends_on_id, first_line, functions_of
from streamwarden.lint.facts import Bound, JobFacts, Operator, OperatorKind, SinkUse
from streamwarden.lint.finding import FactOrigin
from streamwarden.lint.named_places import WRITER, chains, named_inputs, named_queries
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

_CLEARS: Final = frozenset({"clear", "removeKey", "remove", "deleteIfExists"})

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
            sinks=tuple(_sinks(tree, path)),
            named=tuple(named_queries(tree)),
            inputs=tuple(named_inputs(tree)),
            watermarked="withWatermark" in _attributes(tree),
            reads_rows=_reads_rows(tree),
        )
    except (SyntaxError, ValueError, RecursionError) as error:
        return JobFacts(path=path, problem=f"it cannot be parsed: {error}", parsed=False)


def _operators(tree: ast.Module) -> Iterator[Operator]:
    bound, why = _bound_of(tree)
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


def _bound_of(tree: ast.Module) -> tuple[Bound, str]:
    """(what removes state of the job's processor, how that is known). Unknown if the job has not exactly one.

    It is read from the names of the methods that the processor's class calls. The logical plan holds the processor as
    pickled code, so its class is the only place that shows this.
    """
    classes = {node.name: _method_calls(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    processors = [name for name, calls in classes.items() if TTL_ARGUMENT.keys() & calls.keys()]
    if len(processors) != 1:
        return Bound.UNKNOWN, f"the job's text has {len(processors)} classes that declare state variables, not one"
    (name,) = processors
    calls = classes[name]
    lives = [_expires(call, at) for method, at in TTL_ARGUMENT.items() for call in calls.get(method, ())]
    clears = bool(_CLEARS & calls.keys())
    if all(lives):
        return Bound.TTL, f"all state variables of {name} have a time to live"
    if "registerTimer" in calls and clears:
        return Bound.TIMERS, f"{name} registers timers and clears state"
    if None in lives:
        return Bound.UNKNOWN, f"the time to live of a state variable of {name} is not a constant"
    if "registerTimer" in calls:
        return Bound.UNCLEARED, f"{name} registers timers, and never clears a state variable"
    cleared = "clears state only when a row comes" if clears else "never clears state"
    return Bound.NONE, f"{name} {cleared}, and has no timer and no time to live that ends a silent key"


def _method_calls(node: ast.ClassDef) -> dict[str, list[ast.Call]]:
    """Method -> its calls in the class."""
    calls: dict[str, list[ast.Call]] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            calls.setdefault(part.func.attr, []).append(part)
    return calls


def _expires(call: ast.Call, at: int) -> bool | None:
    """Whether the state variable has a time to live; None if only a run knows."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "ttlDurationMs"), None)
    if given is None and len(call.args) > at:
        given = call.args[at]
    if given is None:
        return False
    return bool(given.value) if isinstance(given, ast.Constant) else None


def _reads_rows(tree: ast.Module) -> bool | None:
    """Whether the text uses `read_rows`; None if it does not, and imports code that may use it."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    names |= _attributes(tree)
    modules = {(node.module or ".") for node in imports if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    if "read_rows" in names:
        return True
    return False if {module.partition(".")[0] for module in modules} <= TRUSTED else None


def _attributes(tree: ast.Module) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def _sinks(tree: ast.Module, path: str) -> Iterator[SinkUse]:
    """One for each `writeStream`."""
    functions = functions_of(tree)
    for chain in chains(tree, WRITER):
        yield _sink(chain.line, dict(chain.calls), functions, path)


def _sink(line: int, calls: Mapping[str, ast.Call], functions: Mapping[str, ast.FunctionDef], path: str) -> SinkUse:
    if "foreachBatch" in calls:
        given = next(iter(calls["foreachBatch"].args), None)
        function = functions.get(given.id) if isinstance(given, ast.Name) else given
        if not isinstance(function, Function):
            return SinkUse(format="foreachBatch", line=line)
        name = "<lambda>" if isinstance(function, ast.Lambda) else function.name
        writes = WritingFunction(name=name, file=path, line=first_line(function))
        uses = depends_on_id(function, functions)
        return SinkUse(format="foreachBatch", line=line, function=writes, uses_batch_id=uses)
    if "foreach" in calls or "toTable" in calls:
        return SinkUse(format="foreach" if "foreach" in calls else "table", line=line)
    if "format" not in calls:
        return SinkUse(format="parquet" if "start" in calls else None, line=line)
    given = next(iter(calls["format"].args), None)
    constant = given.value if isinstance(given, ast.Constant) else None
    return SinkUse(format=constant if isinstance(constant, str) else None, line=line)
