"""Whether what a function of foreachBatch writes depends on the batch's id, by its text alone.

A batch that runs again has the same id. A function that only prints it, logs it or counts it writes such a batch twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

Function = ast.FunctionDef | ast.Lambda

_WRITERS: Final = frozenset({"write", "writeTo"})
"""Attributes of a frame from which a write begins."""

_EFFECTS: Final = frozenset(
    {
        *("execute", "executemany", "executescript", "sql", "merge", "upsert", "insert", "insert_many", "insert_one"),
        *("update_one", "replace_one", "bulk_write", "save", "put", "put_object", "post", "send", "produce", "publish"),
        *("upload", "upload_file", "set", "hset", "copy", "rename", "replace", "write_text", "write_bytes", "mkdir"),
        *("createOrReplaceTempView", "createTempView", "createOrReplaceGlobalTempView"),
        *("foreach", "foreachPartition", "insertInto", "saveAsTable", "jdbc", "parquet", "json", "orc", "csv", "text"),
    }
)
"""Methods that change something outside, or name a frame for SQL: what they are given reaches the output."""

_SHOWING: Final = frozenset(
    {
        *("debug", "info", "warning", "warn", "error", "exception", "critical", "log", "print", "show", "display"),
        *("gauge", "increment", "incr", "inc", "observe", "timing", "labels", "sleep", "setJobDescription"),
        *("setJobGroup", "setLocalProperty", "append", "add", "discard", "update", "flush", "time", "perf_counter"),
    }
)
"""Methods and functions that show or count what they are given, and write no output."""

_PURE: Final = frozenset(
    {
        *("str", "int", "float", "repr", "format", "len", "hash", "bool", "tuple", "list", "set", "dict", "range"),
        *("lit", "col", "expr", "withColumn", "withColumns", "select", "join", "strip", "zfill", "encode", "rjust"),
    }
)
"""What only makes a value of its arguments: the value carries on."""

_STANDARD: Final = frozenset({"stdout", "stderr"})


def depends_on_id(function: Function, functions: Mapping[str, ast.FunctionDef], bound: int = 0) -> bool | None:
    """Whether a write of the function depends on its second parameter. None: code that is not in the text decides.

    Args:
        functions: of the text, by name.
        bound: parameters before the rows and the id.
    """
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)][bound:]
    return _Reader(functions).depends(function, frozenset(names[:1]), frozenset(names[1:2]))


def function_at(tree: ast.Module, line: int) -> Function | None:
    """The function of which this is the first line, with its decorators; None: there is not exactly one."""
    found = [node for node in ast.walk(tree) if isinstance(node, Function) and first_line(node) == line]
    return found[0] if len(found) == 1 else None


def first_line(function: Function) -> int:
    """As Python counts it: that of the first decorator."""
    decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
    return min(node.lineno for node in (function, *decorators))


def functions_of(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """The functions of a text, by name."""
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def appends(text: str, line: int, bound: int = 0) -> bool:
    """Whether a text shows that what its function with this first line writes does not depend on the batch's id. For
    `bound` see `depends_on_id`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    function = function_at(tree, line)
    return function is not None and depends_on_id(function, functions_of(tree), bound) is False


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a function with those that it calls. Args: within: the functions whose calls are being read."""

    functions: Mapping[str, ast.FunctionDef]
    within: frozenset[str] = frozenset()

    def depends(self, function: Function, rows: frozenset[str], given: frozenset[str]) -> bool | None:
        """See `depends_on_id`. `rows`, `given`: the parameters that carry the rows, and those that carry the id."""
        body = function.body if isinstance(function.body, list) else [function.body]
        nodes = [node for part in body for node in ast.walk(part)]
        rows, names = _carriers(nodes, rows), _carriers(nodes, given)
        answers: list[bool | None] = [_guards(node, names) for node in nodes]
        answers += [self._call(node, rows, names) for node in nodes if isinstance(node, ast.Call)]
        return True if True in answers else None if None in answers else False

    def _call(self, node: ast.Call, rows: frozenset[str], names: frozenset[str]) -> bool | None:
        """Whether a call writes by the id. Code that is not in the text does if it gets the rows, too; None: it gets
        the id alone."""
        if _is_write(node) and _uses(node, names):
            return True
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        name = _called(node)
        if name in _SHOWING | _PURE | self.within or not any(_uses(argument, names) for argument in arguments):
            return False
        own = self.functions.get(name) if isinstance(node.func, ast.Name) else None
        if own is not None:
            inner = _Reader(self.functions, self.within | {name})
            return inner.depends(own, _passed(node, own, rows), _passed(node, own, names))
        if isinstance(node.func, ast.Attribute) and (_is_of_writer(node.func) or _on_standard_output(node.func)):
            return False
        return True if any(_uses(argument, rows) for argument in arguments) else None


def _carriers(nodes: list[ast.AST], given: frozenset[str]) -> frozenset[str]:
    """The names whose value depends on `given`."""
    names = given
    while True:
        bound = {name for node in nodes for target, value in _bindings(node) if _uses(value, names) for name in target}
        if bound <= names:
            return names
        names |= bound


def _bindings(node: ast.AST) -> Iterator[tuple[set[str], ast.AST]]:
    """(names, value) of an assignment, a loop or a context manager."""
    if isinstance(node, ast.Assign):
        yield {name for target in node.targets for name in _names(target)}, node.value
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
        yield _names(node.target), node.value
    elif isinstance(node, ast.For | ast.comprehension):
        yield _names(node.target), node.iter
    elif isinstance(node, ast.FunctionDef):
        yield {node.name}, node
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield _names(node.optional_vars), node.context_expr


def _guards(node: ast.AST, names: frozenset[str]) -> bool:
    """Whether the node decides by one of the names if there is a write."""
    if not isinstance(node, ast.If | ast.While) or not _uses(node.test, names):
        return False
    inner = [deep for part in (*node.body, *node.orelse) for deep in ast.walk(part)]
    return any(
        isinstance(deep, ast.Return | ast.Raise) or (isinstance(deep, ast.Call) and _is_write(deep)) for deep in inner
    )


def _passed(node: ast.Call, own: ast.FunctionDef, names: frozenset[str]) -> frozenset[str]:
    """The parameters of a function of the text that get one of the names."""
    parameters = [argument.arg for argument in (*own.args.posonlyargs, *own.args.args)]
    by_place = zip(parameters, node.args, strict=False)
    by_name = ((keyword.arg or "", keyword.value) for keyword in node.keywords)
    return frozenset(parameter for parameter, value in (*by_place, *by_name) if _uses(value, names))


def _is_write(node: ast.Call) -> bool:
    """Whether the call ends a chain of a frame's writer, or changes something outside."""
    if not isinstance(node.func, ast.Attribute) or _on_standard_output(node.func):
        return False
    return node.func.attr in _EFFECTS or _is_of_writer(node.func)


def _is_of_writer(node: ast.AST) -> bool:
    """Whether `frame.write` or `frame.writeTo(…)` is in the chain."""
    while isinstance(node, ast.Attribute | ast.Call):
        if isinstance(node, ast.Attribute) and node.attr in _WRITERS:
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return False


def _on_standard_output(node: ast.Attribute) -> bool:
    """`sys.stdout.write`."""
    return isinstance(node.value, ast.Attribute) and node.value.attr in _STANDARD


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _uses(node: ast.AST, names: frozenset[str]) -> bool:
    return not names.isdisjoint(_names(node))


def _names(node: ast.AST) -> set[str]:
    return {deep.id for deep in ast.walk(node) if isinstance(deep, ast.Name)}
