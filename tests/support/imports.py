"""The imports of a Python file, found without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of a node that hold statements, or what holds statements itself."""


def imports(source: str, *, of: str = "") -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements of a source, at its top or inside a block. Expressions, nine of ten nodes, are passed over:
    an import is a statement.

    Args:
        of: a name that each import wanted has in it: a source without it is not parsed.
    """
    pending: list[ast.AST] = [ast.parse(source)] if of in source else []
    for node in pending:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.expr):
            pending += [statement for block in _BLOCKS for statement in getattr(node, block, ())]
