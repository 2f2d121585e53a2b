"""Input on which a regular expression backtracks most: long repetitions of what each of its repeats accepts."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import streamwarden

SOURCE = Path(streamwarden.__file__).parent
METHODS = {"match", "fullmatch", "search", "sub", "split", "findall", "finditer"}
ENDS = ("", "!", "\n", "\0", " x")
"""What follows the repetitions; each makes other patterns fail at the last moment."""
_USED = re.compile(rf"\.(?<=[A-Z_0-9e]\.)({'|'.join(sorted(METHODS))})\(")
"""How a use ends: of `re`, or of a constant. What it begins with takes thirty times as long to look for."""
_MANY = 100
_SAMPLES = {
    codes.CATEGORY_DIGIT: "7",
    codes.CATEGORY_NOT_DIGIT: "a",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "a",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_WORD: "-",
}


@dataclass(frozen=True)
class Use:
    """A pattern, and a method of `re` that the product calls with it."""

    where: str
    pattern: re.Pattern[Any]
    method: str

    def run(self, text: str) -> None:
        given: Any = text.encode() if isinstance(self.pattern.pattern, bytes) else text
        match self.method:
            case "sub":
                self.pattern.sub(given[:0], given)
            case "split":
                self.pattern.split(given)
            case "findall" | "finditer":
                self.pattern.findall(given)
            case method:
                getattr(self.pattern, method)(given)


def uses() -> list[Use]:
    """Every use of a regular expression in the package: `re.METHOD("…")`, and `NAME.METHOD(…)` of a constant."""
    return sorted(chain.from_iterable(_of_file(path) for path in SOURCE.rglob("*.py")), key=lambda use: use.where)


def attacks(pattern: re.Pattern[Any], length: int) -> Iterator[str]:
    """Texts of about `length` characters that reach a repeat of the pattern and repeat what it accepts."""
    source = pattern.pattern.decode() if isinstance(pattern.pattern, bytes) else pattern.pattern
    tree = parser.parse(source, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags)
    for before, unit in _repeats(tree, ""):
        for end in ENDS:
            yield before + unit * (length // len(unit)) + end
        yield (before + unit) * (length // len(before + unit))


def _of_file(path: Path) -> Iterator[Use]:
    if not _USED.search(path.read_text()):
        return
    for node in ast.walk(_tree(path)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in METHODS:
            continue
        owner, where = node.func.value, f"{path.relative_to(SOURCE)}:{node.lineno}"
        if not isinstance(owner, ast.Name):
            continue
        if owner.id == "re":
            if node.args and isinstance(node.args[0], ast.Constant):
                flags = re.MULTILINE if "MULTILINE" in ast.unparse(node) else re.NOFLAG
                yield Use(where, re.compile(node.args[0].value, flags), node.func.attr)
        elif _is_constant(owner.id) and isinstance(known := _constants(path).get(owner.id), re.Pattern):
            yield Use(where, known, node.func.attr)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _constants(path: Path) -> dict[str, Any]:
    """The values of the module's constants, those that it imports from another of our modules among them. A module
    whose patterns are written out is not imported: importing every module of the package takes seconds."""
    names: dict[str, Any] = {"re": re}
    for node in _tree(path).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("streamwarden."):
            names |= _imported(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            try:
                names[ast.unparse(target)] = eval(compile(ast.Expression(node.value), path, "eval"), names)
            except Exception:
                if "re.compile(" in ast.unparse(node.value):
                    return vars(importlib.import_module(_module(path)))
    return names


def _imported(node: ast.ImportFrom) -> dict[str, Any]:
    file = SOURCE.joinpath(*str(node.module).split(".")[1:]).with_suffix(".py")
    wanted = {alias.asname or alias.name: alias.name for alias in node.names if _is_constant(alias.name)}
    found = _constants(file) if wanted and file.exists() else {}
    return {name: found[source] for name, source in wanted.items() if source in found}


def _is_constant(name: str) -> bool:
    return name.isupper() or name.startswith("_")


def _module(path: Path) -> str:
    return ".".join(("streamwarden", *path.relative_to(SOURCE).with_suffix("").parts))


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """(a text that leads there, what it accepts) of each repeat without a small bound."""
    for code, argument in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            _, most, inner = argument
            if most > _MANY:
                for unit in _units(inner):
                    yield before, unit
            yield from _repeats(inner, before)
        for inner in _inside(code, argument):
            yield from _repeats(inner, before)
        before += _example([(code, argument)])


def _inside(code: Any, argument: Any) -> list[Any]:
    if code is codes.SUBPATTERN:
        return [argument[-1]]
    if code is codes.BRANCH:
        return list(argument[1])
    return [argument[1]] if code in (codes.ASSERT, codes.ASSERT_NOT) else []


def _units(inner: Any) -> set[str]:
    """Texts that the inside of a repeat accepts: its shortest example, and one of each member of a set."""
    found = {_example(inner)}
    if len(inner) == 1 and inner[0][0] is codes.IN:
        found |= {_example([(codes.IN, [member])]) for member in inner[0][1] if member[0] is not codes.NEGATE}
    if len(inner) == 1 and inner[0][0] in (codes.ANY, codes.NOT_LITERAL):
        found |= {" ", "a", "7"}
    return found - {""}


def _example(tree: Any) -> str:
    """A short text that the nodes accept, roughly."""
    return "".join(_example_of(code, argument) for code, argument in tree)


def _example_of(code: Any, argument: Any) -> str:
    match code:
        case codes.LITERAL:
            return chr(argument)
        case codes.ANY | codes.NOT_LITERAL:
            return "a"
        case codes.IN:
            member = next((each for each in argument if each[0] is not codes.NEGATE), None)
            if argument[0][0] is codes.NEGATE or member is None:
                return "a"
            return chr(member[1][0]) if member[0] is codes.RANGE else _example([member])
        case codes.CATEGORY:
            return _SAMPLES.get(argument, "a")
        case codes.SUBPATTERN:
            return _example(argument[-1])
        case codes.BRANCH:
            return _example(argument[1][0])
        case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
            return _example(argument[2]) * argument[0]
        case _:
            return ""
