"""Reads the stateful operators out of an analyzed logical plan, as Spark prints it.

One node a line; the tree is drawn with `+- ` and `:  `, three characters a level. A node of a streaming part has a
tilde before its name. A column that carries a watermark ends with the delay: `event_time#1-T600000ms`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from streamwarden.lint.facts import STATEFUL, Bound, Operator, OperatorKind, PlanFacts
from streamwarden.lint.finding import FactOrigin
from streamwarden.stream.spec import OutputMode

_LINE: Final = re.compile(r"(?P<tree>[ :+\-|]*)(?P<streaming>~?)(?P<name>[A-Za-z]\w*+)(?P<rest>.*)")
_MARKED: Final = re.compile(r"(?<![\w.])([\w.]+)#(\d+)L?-T\d+ms")
_SET: Final = re.compile(r"#(\d+): ")
_LEVEL: Final = 3

_COLUMN: Final = re.compile(r"(?P<name>[\w.]+)#(?P<id>\d+)L?(?:-T\d+ms)?")
_IDENTIFYING: Final = frozenset({"Aggregate", "Deduplicate", "DeduplicateWithinWatermark"})


@dataclass
class _Node:
    name: str
    streaming: bool
    text: str
    level: int
    children: list[_Node] = field(default_factory=list)

    def below(self) -> Iterator[_Node]:
        yield self
        for child in self.children:
            yield from child.below()


def read_plan(text: str, mode: OutputMode) -> PlanFacts:
    """The stateful operators of a plan, from the result down. A text that is not a plan has none."""
    return PlanFacts(
        operators=tuple(
            _operator(node, STATEFUL[node.name], mode)
            for root in _trees(text)
            for node in root.below()
            if node.name in STATEFUL and _keeps_state(node)
        )
    )


def identifying_columns(text: str) -> tuple[str, ...]:
    """The output columns that identify a row because the query groups by them, or removes duplicates by them: those of
    the stateful operator that is next to the result. Empty if it has none, or the output does not show each of them.

    A window is shown by its start.
    """
    for root in _trees(text):
        shown: list[tuple[str, str]] = []
        origins: dict[str, str] = {}
        node = root
        while True:
            columns = _parts(_last_list(node.text)) if node.name in {"Project", "Aggregate"} else []
            for part in columns:
                before, _, name = part.rpartition(" AS ")
                origin, column = _COLUMN.fullmatch(before.removesuffix(".start")), _COLUMN.fullmatch(name)
                if origin is not None and column is not None:
                    origins[column["id"]] = origin["id"]
            shown = shown or _names_and_ids(part.rpartition(" AS ")[2] for part in columns)
            if node.streaming and node.name in _IDENTIFYING:
                wanted = [_COLUMN.fullmatch(part) for part in _parts(_first_list(node.text))]
                # One that has no list of its output passes its input on, with the names by which it knows the columns.
                shown = shown or _names_and_ids(_parts(_first_list(node.text)))
                return _named([match["id"] if match else None for match in wanted], shown, origins)
            if len(node.children) != 1:
                break
            node = node.children[0]
    return ()


def _names_and_ids(columns: Iterable[str]) -> list[tuple[str, str]]:
    matches = (_COLUMN.fullmatch(column) for column in columns)
    return [(match["name"], match["id"]) for match in matches if match is not None]


def _named(
    wanted: Sequence[str | None], shown: Sequence[tuple[str, str]], origins: Mapping[str, str]
) -> tuple[str, ...]:
    """The name of an output column for each of the wanted ids; empty if one has none."""
    names: dict[str, str] = {}
    for name, identity in shown:
        names.setdefault(identity, name)
        while identity in origins:
            identity = origins[identity]
            names.setdefault(identity, name)
    wanted_names = tuple(names.get(wanted_id or "", "") for wanted_id in wanted)
    return wanted_names if all(wanted_names) else ()


def _parts(text: str) -> list[str]:
    """The elements of a list, split at the commas that are in no brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def _last_list(text: str) -> str:
    """The text of the last list that is not in another one: the output of a node."""
    while (rest := text[text.find("[") + len(_first_list(text)) + 2 :]).lstrip(", ").startswith("["):
        text = rest
    return _first_list(text)


def _trees(text: str) -> list[_Node]:
    roots: list[_Node] = []
    path: list[_Node] = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        level = len(match["tree"]) // _LEVEL
        node = _Node(match["name"], bool(match["streaming"]), match["rest"].strip(), level)
        while path and path[-1].level >= level:
            path.pop()
        (path[-1].children if path else roots).append(node)
        path.append(node)
    return roots


def _keeps_state(node: _Node) -> bool:
    """A streaming node; a join only if both its sides are streams."""
    if node.name == "Join":
        return len(node.children) == 2 and all(_is_stream(child) for child in node.children)
    return node.streaming


def _is_stream(node: _Node) -> bool:
    return any(below.streaming or below.name.startswith("Streaming") for below in node.below())


def _operator(node: _Node, kind: OperatorKind, mode: OutputMode) -> Operator:
    bound, why = _bound(node, kind, mode)
    where = f"{node.name} {node.text}"
    where = where if len(where) <= 100 else f"{where[:99]}…"
    return Operator(kind=kind, name=node.name, bound=bound, why=why, origin=FactOrigin.PLAN, where=where)


def _bound(node: _Node, kind: OperatorKind, mode: OutputMode) -> tuple[Bound, str]:
    match kind:
        case OperatorKind.AGGREGATION:
            return _aggregate(_first_list(node.text), mode)
        case OperatorKind.DEDUPLICATION:
            return _deduplicate(node)
        case OperatorKind.JOIN:
            return _join(node)
        case OperatorKind.GROUP_STATE:
            timeout = next((name for name in ("NoTimeout", "ProcessingTime", "EventTime") if name in node.text), None)
            if timeout is None:
                return Bound.UNKNOWN, "the plan does not name its timeout"
            return (Bound.NONE if timeout == "NoTimeout" else Bound.TIMEOUT), f"its timeout is {timeout}"
        case _:
            return Bound.UNKNOWN, "what its processor clears is not in the plan"


def _aggregate(keys: str, mode: OutputMode) -> tuple[Bound, str]:
    marked = _names(keys)
    if not keys.strip():
        return Bound.ONE_ROW, "it groups by nothing"
    if mode is OutputMode.COMPLETE:
        return Bound.NONE, "in output mode complete every group stays, watermark or not"
    if marked:
        return Bound.WATERMARK, f"the watermark on {marked} closes its groups"
    return Bound.NONE, "no column that it groups by has a watermark"


def _deduplicate(node: _Node) -> tuple[Bound, str]:
    if not any(below.name == "EventTimeWatermark" for below in node.below()):
        return Bound.NONE, "there is no watermark below it"
    if node.name != "Deduplicate":
        return Bound.WATERMARK, "there is a watermark below it"
    marked = _names(_first_list(node.text))
    if marked:
        return Bound.WATERMARK, f"the watermark on {marked} ends it"
    return Bound.NONE, "the watermark's column is not among its columns"


def _join(node: _Node) -> tuple[Bound, str]:
    left, right = (set().union(*map(_marked, child.below())) for child in node.children)
    used = {match[1] for match in _MARKED.findall(node.text)}
    if used & left and used & right:
        return Bound.WATERMARK, f"its condition names {_names(node.text)}, with a watermark on both sides"
    return Bound.NONE, "its condition sets no bound between columns with a watermark of both sides"


def _marked(node: _Node) -> set[str]:
    """Ids of the columns with a watermark that the node names. The node that sets one names it without the delay."""
    ids = {match[1] for match in _MARKED.findall(node.text)}
    return ids | set(_SET.findall(node.text)) if node.name == "EventTimeWatermark" else ids


def _names(text: str) -> str:
    return ", ".join(sorted({name for name, _ in _MARKED.findall(text)}))


def _first_list(text: str) -> str:
    """The text between the first `[` and its `]`."""
    start = text.find("[")
    depth = 0
    for position in range(max(start, 0), len(text)):
        depth += {"[": 1, "]": -1}.get(text[position], 0)
        if depth == 0:
            return text[start + 1 : position]
    return ""
