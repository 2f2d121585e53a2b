"""Counts the queries that a script starts, where its text alone shows the number; in doubt the number is unknown."""

import ast
import sys
from typing import Final

TRUSTED: Final = frozenset({"pyspark", "streamwarden", *sys.stdlib_module_names} - {"importlib", "runpy"})
"""Packages whose functions start no query by themselves."""

_CERTAIN: Final = (
    *(ast.Module, ast.Expr, ast.Assign, ast.AnnAssign, ast.Return, ast.With, ast.withitem, ast.Try),
    *(ast.Call, ast.Attribute, ast.keyword, ast.Starred, ast.Tuple, ast.List, ast.Dict),
)
"""Code whose parts run exactly once if the whole does: not a loop, a branch or a function."""


def count_queries(tree: ast.Module) -> int | None:
    """The number of queries; None if the text starts none, or does not show how many."""
    counter = _Counter(tree)
    try:
        counter.visit(tree)
    except RecursionError:  # an expression of several hundred terms is valid Python
        return None
    return counter.count or None


class _Counter(ast.NodeVisitor):
    """Adds one for each `start()` in code that runs exactly once. A `start()` elsewhere makes the number unknown."""

    def __init__(self, tree: ast.Module) -> None:
        self.count: int | None = 0
        self._once = True
        self._functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
        self._inline = {name for name in self._functions if names.count(name) == 1}
        """Functions that the text names once: if that is a call, their body runs in its place."""
        self._writers = {"writeStream"}
        """The property, and the variables that hold results of it."""
        self._foreign = {"exec", "eval", "__import__"}
        """Names of code that is not in this file and may start queries."""

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef) and node.name in self._inline:
            return
        before, self._once = self._once, self._once and (isinstance(node, _CERTAIN) or _is_main(node))
        super().visit(node)
        self._once = before

    def visit_Module(self, node: ast.Module) -> None:
        self.generic_visit(node)
        self._once = False
        for name in self._inline:  # those that were not called in code that runs exactly once
            self.generic_visit(self._functions[name])

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        package = (node.module or ".") if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            if (package or alias.name).partition(".")[0] not in TRUSTED:
                self._foreign.add(alias.asname or alias.name.partition(".")[0])
        if "*" in self._foreign:
            self.count = None

    visit_ImportFrom = visit_Import  # noqa: N815 (the name that NodeVisitor calls)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(_mentions(node.value, name) for name in self._writers):
            self._writers |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._foreign:
            self.count = None

    def visit_Call(self, node: ast.Call) -> None:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method in ("start", "toTable"):
            writer = any(_mentions(node.func, name) for name in self._writers)
            self._start(certain=method == "toTable" or writer)
        if isinstance(node.func, ast.Name) and node.func.id in self._inline and self._once:
            self._inline.remove(node.func.id)
            self.generic_visit(self._functions[node.func.id])
        self.generic_visit(node)

    def _start(self, *, certain: bool) -> None:
        """A query starts here: `certain` is false for the `start` of something that may not be a query."""
        self.count = self.count + 1 if certain and self._once and self.count is not None else None


def _is_main(node: ast.AST) -> bool:
    """`if __name__ == "__main__":` without an `else`, which every script enters."""
    return isinstance(node, ast.If) and not node.orelse and _mentions(node.test, "__name__")


def _mentions(node: ast.AST, name: str) -> bool:
    return any(name in (getattr(part, "id", None), getattr(part, "attr", None)) for part in ast.walk(node))
