"""Reads the places that a script names for its queries and sources: the values that its text shows as constants.

A constant is a text, a name that the file assigns exactly once and to such a text, or both put together. Everything
else is unknown, and nothing is concluded from it.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

from streamwarden.errors import InvalidValue
from streamwarden.lifecycle.script_queries import NamedInput, NamedQuery
from streamwarden.stream.spec import TriggerSpec
from streamwarden.units import parse_duration

WRITER: Final = "writeStream"
READER: Final = "readStream"
BY_FORMAT: Final = frozenset({"text", "json", "csv", "parquet", "orc", "xml"})
"""Methods that read or write files of the format that they are named after."""

_POSITIONS: Final[Mapping[str, Sequence[str]]] = {
    "start": ("path", "format"),
    "toTable": ("table", "format"),
    "queryName": ("queryname",),
    "format": ("format",),
    "load": ("path", "format"),
    **dict.fromkeys(BY_FORMAT, ("path",)),
}
"""Method -> the names of its first parameters, in lower case as all names of options here."""

_LOADS: Final = BY_FORMAT | {"load", "table"}
"""Methods that end a reader: the calls behind them are the frame's."""

Texts = Mapping[str, str]


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


def named_queries(tree: ast.Module) -> Iterator[NamedQuery]:
    """One for each `writeStream`."""
    texts = constants(tree)
    for chain in chains(tree, WRITER):
        options = _options(chain.calls, texts)
        yield NamedQuery(
            name=options.get("queryname"),
            checkpoint=options.get("checkpointlocation"),
            format=options.get("format"),
            path=options.get("path"),
            topic=options.get("topic"),
            table=options.get("table"),
            trigger=next((_trigger(call, texts) for name, call in chain.calls if name == "trigger"), None),
            line=chain.line,
        )


def named_inputs(tree: ast.Module) -> Iterator[NamedInput]:
    """One for each `readStream`."""
    texts = constants(tree)
    for chain in chains(tree, READER):
        end = next((at for at, (name, _) in enumerate(chain.calls, 1) if name in _LOADS), 0)
        options = _options(chain.calls[:end], texts)
        last = chain.calls[end - 1][0] if end else None
        format = last if last in BY_FORMAT else options.get("format")
        yield NamedInput(
            format=format,
            path=options.get("path"),
            topic=options.get("subscribe"),
            line=chain.line,
            options=options,
        )


def constants(tree: ast.Module) -> Texts:
    """The names that the file binds once, to a text that it shows."""
    bound: Counter[str] = Counter()
    values: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound[node.id] += 1
        elif isinstance(node, ast.arg):
            bound[node.arg] += 1
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            values[node.targets[0].id] = node.value
    texts: dict[str, str] = {}
    for name, value in values.items():
        text = text_of(value, texts)
        if bound[name] == 1 and text is not None:
            texts[name] = text
    return texts


def _options(calls: Iterable[tuple[str, ast.Call]], texts: Texts) -> dict[str, str]:
    """The known settings of a chain, with names in lower case; a later call wins."""
    options: dict[str, str] = {}
    for method, call in calls:
        for name, value in _settings(method, call, texts):
            text = _value(value, texts)
            if text is None:
                options.pop(name, None)
            else:
                options[name] = text
    return options


def _value(node: ast.expr, texts: Texts) -> str | None:
    """The value of an option as Spark gets it: `True` is `true`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int):
        return str(node.value).lower()
    return text_of(node, texts)


def _settings(method: str, call: ast.Call, texts: Texts) -> Iterator[tuple[str, ast.expr]]:
    if method == "option" and len(call.args) == 2:
        name = text_of(call.args[0], texts)
        if name is not None:
            yield name.lower(), call.args[1]
    elif method == "options" or method in _POSITIONS:
        yield from zip(_POSITIONS.get(method, ()), call.args, strict=False)
        for keyword in call.keywords:
            if keyword.arg is not None:
                name = keyword.arg.lower()
                yield "table" if name == "tablename" else name, keyword.value


def text_of(node: ast.expr | None, texts: Texts) -> str | None:
    """The text of an expression; None if it is not a constant, or no name that a person would write."""
    try:
        text = _text(node, texts)
    except RecursionError:  # a sum of several hundred terms is valid Python
        return None
    return text if text is not None and text.isprintable() else None


def _text(node: ast.expr | None, texts: Texts) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return texts.get(node.id)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, texts) if node.format_spec is None and node.conversion == -1 else None
    parts: Sequence[ast.expr] = ()
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = (node.left, node.right)
    elif isinstance(node, ast.JoinedStr):
        parts = node.values
    texts_of_parts = [_text(part, texts) for part in parts]
    return (
        "".join(part for part in texts_of_parts if part is not None)
        if texts_of_parts and None not in texts_of_parts
        else None
    )


def _trigger(call: ast.Call, texts: Texts) -> TriggerSpec | None:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    for name in ("availableNow", "once"):
        value = given.get(name)
        if isinstance(value, ast.Constant) and value.value is True:
            return TriggerSpec(processing_time=None, available_now=True)
    try:
        if "realTime" in given:
            return _timed(text_of(given["realTime"], texts), real=True)
        return _timed(text_of(given.get("processingTime"), texts), real=False)
    except InvalidValue:  # an interval of Spark's own, such as `1 minute 30 seconds`
        return None


def _timed(text: str | None, *, real: bool) -> TriggerSpec | None:
    if text is None:
        return None
    seconds = parse_duration(text)
    if not isfinite(seconds):
        return None
    return TriggerSpec(processing_time=None, real_time=seconds) if real else TriggerSpec(processing_time=seconds)
