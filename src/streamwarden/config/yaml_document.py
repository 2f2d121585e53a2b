"""One YAML file, read strictly: ambiguous and dangerous YAML is refused.

Values follow the core schema of YAML 1.2: only `true` and `false` are booleans (not `no` or `on`), `1:30` and
`2026-01-02` are text, a leading zero means nothing. The bounds (size, depth, digits, characters) hold before a value
reaches a rule, the store or Airflow.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from streamwarden.problems import ConfigFileError, KeyPath, Problem, show
from streamwarden.redaction import remember, secrets_of

MAX_BYTES: Final = 64 * 1024
"""A file of a stream has about 40 lines; 64 KiB is 40 times that."""

MAX_DEPTH: Final = 12
"""Nesting of a document; the deepest key of a stream is at 4."""

MAX_NUMBER: Final = 2**63 - 1
"""Largest whole number: JVM, JSON readers and the store's columns have 64 bits."""

MAX_DIGITS: Final = 100
"""Characters of a number: to read one takes the square of its length."""

_UNUSABLE: Final = re.compile(r"[\x00\ud800-\udfff]")
"""Characters that no path and no database can hold: NUL, and one half of a surrogate pair."""

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, if it is installed, is 10 times as fast


class _Loader(_BASE):  # type: ignore[misc]
    """Scalars by the core schema of YAML 1.2 instead of PyYAML's 1.1."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  PyYAML copies it


_INT: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", _INT.pattern, list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})$"), _first)


@dataclass(frozen=True, slots=True)
class Document:
    """The mapping in a file. `lines`: 1-based line of each key path."""

    file: str
    value: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict)


def read_document(path: Path, *, file: str) -> Document:
    """The one mapping in `path`; messages call it `file`. Raises ConfigFileError with all its problems."""
    text = _text(path, file)
    _refuse_traps(text, file)
    node = _parsed(lambda: yaml.compose(text, Loader=_Loader), text, file)
    if node is None:
        raise _refusal(file, "the file is empty", "keys and values")
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise _refusal(file, f"the file holds {kind}", "a mapping: `key: value` lines")
    problems: list[Problem] = []
    lines: dict[KeyPath, int] = {}
    value = _construct(node, (), lines, problems)
    remember(*secrets_of(value))  # no error about this file repeats one of them
    if problems:
        raise ConfigFileError(
            file, [replace(problem, line=problem.line or lines.get(problem.key)) for problem in problems]
        )
    return Document(file, value, lines)


def _refusal(
    file: str, observed: str, allowed: str, *, next_step: str = "", line: int | None = None
) -> ConfigFileError:
    """The error of a file that has one problem as a whole."""
    return ConfigFileError(file, [Problem(observed=observed, allowed=allowed, next_step=next_step, line=line)])


def _text(path: Path, file: str) -> str:
    if not path.resolve().is_relative_to(path.parent.resolve()):
        raise _refusal(
            file,
            f"a symbolic link to a file outside the folder {path.parent.name}",
            "a file, or a link to a file in the same folder: a message may show what the file holds",
            next_step="copy the file into the folder",
        )
    try:
        if not path.is_file():
            observed = "is not a regular file" if path.exists() or path.is_symlink() else "no such file"
            raise _refusal(file, observed, "a readable YAML file")
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise _refusal(file, f"cannot be read: {error.strerror}", "a readable YAML file") from error
    if len(raw) > MAX_BYTES:
        raise _refusal(file, f"larger than {MAX_BYTES} bytes", "a small file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _refusal(file, f"byte {raw[error.start]:#04x} is not UTF-8", "text in UTF-8", line=line) from error


def _refuse_traps(text: str, file: str) -> None:
    """Check the flat events first, so that aliases (an anchor bomb) and deep nesting never become a tree."""

    def scan() -> None:
        depth = documents = 0
        events: Iterator[Any] = yaml.parse(text, Loader=_Loader)
        for event in events:
            line = event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                what = f"the {'alias *' if isinstance(event, yaml.AliasEvent) else 'anchor &'}{event.anchor}"
                raise _refusal(file, what, "no anchors and aliases", next_step="write the value out", line=line)
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                observed, allowed = "a second document begins here", "one document in a file"
                raise _refusal(file, observed, allowed, next_step="move it to a separate file", line=line)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise _refusal(file, f"nested more than {MAX_DEPTH} deep", "at most that", line=line)

    _parsed(scan, text, file)


def _parsed(action: Any, text: str, file: str) -> Any:
    try:
        return action()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        tab = next((n for n, row in enumerate(text.splitlines(), 1) if row.lstrip(" ").startswith("\t")), None)
        if tab is not None and (line is None or tab <= line):
            observed, step = "indented with a tab", "replace tabs with spaces"
            raise _refusal(file, observed, "spaces", next_step=step, line=tab) from error
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        context = getattr(error, "context", None)
        raise _refusal(
            file,
            f"invalid YAML: {reason}{f' {context}' if context else ''}",
            "valid YAML",
            next_step="check this line and the one above: indentation, colon, quotes",
            line=line,
        ) from error


_SCALARS: Final = {f"tag:yaml.org,2002:{kind}": kind for kind in ("null", "bool", "int", "float", "str")}


def _construct(node: yaml.Node, at: KeyPath, lines: dict[KeyPath, int], problems: list[Problem]) -> Any:
    lines.setdefault(at, node.start_mark.line + 1)
    tag: str = node.tag
    if isinstance(node, yaml.MappingNode) and tag == "tag:yaml.org,2002:map":
        return _mapping(node, at, lines, problems)
    if isinstance(node, yaml.SequenceNode) and tag == "tag:yaml.org,2002:seq":
        return [_construct(item, (*at, index), lines, problems) for index, item in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode) and tag in _SCALARS:
        return _checked_scalar(_SCALARS[tag], node.value, at, problems)
    problems.append(
        Problem(
            key=at,
            observed=f"the tag {show(tag)}",
            allowed="plain text, numbers, true, false, null, lists and mappings",
            next_step="remove the tag",
            line=node.start_mark.line + 1,
        )
    )
    return None


def _checked_scalar(kind: str, text: str, at: KeyPath, problems: list[Problem]) -> Any:
    if kind == "int" and _INT.fullmatch(text) and (len(text) > MAX_DIGITS or abs(_scalar(kind, text)) > MAX_NUMBER):
        observed, allowed = f"the number {show(text)}", f"a whole number of at most {MAX_NUMBER}"
        problems.append(Problem(key=at, observed=observed, allowed=allowed))
        return None
    try:
        value = _scalar(kind, text)
    except ValueError:
        observed, allowed = f"{show(text)} is not a value of its tag", f"{kind}, as the tag says"
        problems.append(Problem(key=at, observed=observed, allowed=allowed))
        return None
    problems += _unusable(value, at) if isinstance(value, str) else []
    return value


def _unusable(text: str, at: KeyPath) -> list[Problem]:
    match = _UNUSABLE.search(text)
    if match is None:
        return []
    observed = f"the character U+{ord(match.group()):04X} in {show(text)}"
    allowed = "text without NUL and without lone surrogates, which no path and no database can hold"
    return [Problem(key=at, observed=observed, allowed=allowed, next_step="delete the character")]


def _mapping(node: yaml.MappingNode, at: KeyPath, lines: dict[KeyPath, int], problems: list[Problem]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != "tag:yaml.org,2002:str":
            observed = f"the key {show(getattr(key_node, 'value', key_node))} is not text"
            problems.append(
                Problem(key=at, observed=observed, allowed="text as key", next_step="put it in quotes", line=line)
            )
            continue
        key = key_node.value
        if unusable := _unusable(key, at):
            problems += [replace(problem, line=line) for problem in unusable]
            continue
        if key in result:
            problems.append(
                Problem(
                    key=(*at, key),
                    observed=f"given twice, first on line {lines[(*at, key)]}",
                    allowed="each key once",
                    next_step="delete one of the two",
                    line=line,
                )
            )
            continue
        lines[(*at, key)] = line
        result[key] = _construct(value_node, (*at, key), lines, problems)
    return result


def _scalar(kind: str, text: str) -> Any:
    match kind:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text, 8 if text.startswith("0o") else 16 if text.startswith("0x") else 10)
        case "float":
            return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
        case _:
            return text
