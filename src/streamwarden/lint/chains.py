"""Chains of calls in a job's text, such as `frame.writeStream.format("parquet").start()`."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WRITER: Final = "writeStream"
READER: Final = "readStream"


@dataclass(frozen=True, slots=True)
class CallChain:
    """The calls on one `writeStream` or `readStream`, in the order in which they run, each with its method."""

    line: int
    calls: Sequence[tuple[str, ast.Call]]


def chains(tree: ast.Module, start: str) -> list[CallChain]:
    """The chains that begin with the property `start`, in the order of their lines."""
    chain_of: dict[ast.Attribute, CallChain] = {}
    for node in ast.walk(tree):  # from the outside in, so a chain is first met with all its calls
        calls: list[tuple[str, ast.Call]] = []
        while isinstance(node, ast.Call | ast.Attribute):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                calls.insert(0, (node.func.attr, node))
            elif isinstance(node, ast.Attribute) and node.attr in (WRITER, READER):
                if node.attr == start:
                    chain_of.setdefault(node, CallChain(node.lineno, calls))
                calls = []  # what is further in is another chain
            node = node.func if isinstance(node, ast.Call) else node.value
    return sorted(chain_of.values(), key=lambda chain: chain.line)
