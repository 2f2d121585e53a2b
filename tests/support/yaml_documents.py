"""Generated YAML files: correct ones, damaged in the ways in which people, programs and attackers damage them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

Path = tuple[str | int, ...]

_WORDS: Final = st.sampled_from(
    [
        *(
            "",
            " ",
            "~",
            "null",
            "true",
            "no",
            "0x1F",
            "1:30",
            "2026-01-02",
            ".inf",
            "-.nan",
            "1e999",
            "=",
            "<<",
            "*",
            "a\nb",
        ),
        *(
            "5 per hour",
            "1 per 1 per 1",
            "99999999999 per s",
            "5 GB",
            "30s",
            "1 parsec",
            "5 %",
            "-1",
            "1e400",
            "٣ s",
            "²",
        ),
        *(
            "../../etc/passwd",
            "/",
            "file:///",
            "file:/a",
            "s3a://bucket/a",
            "s3a:///",
            "hdfs:/a/../..",
            "a:/b",
            "~root/x",
        ),
        *(
            "{a,b}",
            "[a]",
            "a*b?c",
            "a" * 300,
            "/".join("ab" * 200),
            "spark_jobs/job.py",
            "spark_jobs",
            "files",
            "kafka",
        ),
        *(
            "local[*]",
            "yarn",
            "k8s://x",
            "spark://",
            "rocksdb",
            "a.B",
            "0 3 * * *",
            "@daily",
            "* * 31 2 *",
            "all",
            "fork",
        ),
    ]
)
_TEXT: Final = st.one_of(
    _WORDS,
    st.text(max_size=20),
    st.text(st.characters(codec=None, categories=["Cc", "Cs", "Co", "Cn", "Zl", "Zs", "Mn"]), max_size=5),
    st.tuples(
        st.sampled_from(" \t9.-_a/[(\u00a0"), st.sampled_from([10, 1000, 20_000]), st.sampled_from(["", "!", "x s"])
    ).map(lambda parts: parts[0] * parts[1] + parts[2]),
)
_NUMBERS: Final = st.one_of(
    st.integers(-2, 5),
    st.integers(),
    st.sampled_from([2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 10**308, 10**309, 10**4000]),
    st.floats(),
)
_SCALARS: Final = st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXT)
VALUES: Final = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=6,
)
"""A value of any type, of any size that JSON can spell."""


def _paths(value: Any, at: Path = ()) -> list[Path]:
    """Every place in a document, the whole of it first."""
    inner: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [at, *(path for key, each in inner for path in _paths(each, (*at, key)))]


def _put(value: Any, path: Path, new: Any) -> Any:
    """`value` with `new` at `path`."""
    if not path:
        return new
    key, rest = path[0], path[1:]
    if isinstance(value, list):
        return [_put(each, rest, new) if index == key else each for index, each in enumerate(value)]
    return {**value, key: _put(value.get(key, {}), rest, new)}


@st.composite
def _mutated(draw: st.DrawFn, documents: Sequence[Mapping[str, Any]]) -> Any:
    """One of the documents with up to three values bent, replaced or wrapped, or keys added."""
    value: Any = draw(st.sampled_from(documents))
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(_paths(value)))
        how = draw(st.sampled_from(["bend", "bend", "bend", "replace", "replace", "add", "wrap"]))
        if how == "bend":
            value = _put(value, path, _bent(_at(value, path), draw(st.integers(0, 99))))
        elif how == "add":
            value = _put(value, (*path, draw(_TEXT)), draw(VALUES)) if _is_mapping(value, path) else value
        elif how == "wrap":
            value = _put(value, path, [_at(value, path)])
        else:
            value = _put(value, path, draw(VALUES))
    return value


def _bent(value: Any, way: int) -> Any:
    """A value that is almost right."""
    if isinstance(value, bool) or value is None:
        return [str(value).lower(), 0, 1, [value], {"": value}][way % 5]
    if isinstance(value, int | float):
        return [10**309, -value, 0.5, str(value), 2**63 - 1, 1e308, 0, [value], -1, "9" * 400][way % 10]
    if isinstance(value, str):
        bends = [value + "\0", f"\ud800{value}", value + " " * 20_000 + "!", value * 300, f" {value}", value.upper()]
        bends += [
            value[:-1],
            [value],
            {value: value},
            f"{'9' * 400} {value}",
            f"1{'0' * 300}{value[-1:]}",
            f"../{value}",
        ]
        return bends[way % len(bends)]
    return [list(value), dict.fromkeys(map(str, value)), [value, value], str(value)][way % 4]


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _is_mapping(value: Any, path: Path) -> bool:
    return isinstance(_at(value, path), dict)


def _block(value: Any, indent: int = 0) -> str:
    """The document in block style, whose scalars are JSON; JSON's scalars are YAML's."""
    pad = "  " * indent
    if isinstance(value, dict) and value:
        return "".join(f"{pad}{json.dumps(key)}:{_nested(each, indent)}" for key, each in value.items())
    if isinstance(value, list) and value:
        return "".join(f"{pad}-{_nested(each, indent)}" for each in value)
    return f"{pad}{json.dumps(value)}\n"


def _nested(value: Any, indent: int) -> str:
    if isinstance(value, dict | list) and value:
        return f"\n{_block(value, indent + 1)}"
    return f" {json.dumps(value)}\n"


_LAUGHS: Final = "a0: &a0 [lol]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
_SNIPPETS: Final = st.sampled_from(
    [
        _LAUGHS,
        "x: &x {y: *x}\n",
        "<<: {name: a}\n",
        "--- \nname: b\n",
        "%YAML 9.9\n---\n",
        "deep: " + "[" * 5000 + "]" * 5000 + "\n",
        "deep: " + "{a: " * 500 + "}" * 500 + "\n",
        "deep:\n" + "".join(" " * n + "- \n" for n in range(1, 300)),
        "- " * 5000 + "\n",
        "? " * 5000 + "\n",
        "name: a\nname: b\n",
        "x: !!python/object/apply:os.system ['true']\n",
        "x: !!binary AAAA\n",
        "x: !!set {a, b}\n",
        "x: |\n" + " text\n" * 5000,
        'x: "\\0 \\ud800 \\U0010FFFF"\n',
        "\tx: 1\n",
        "x: '" + "'" * 5001 + "\n",
        "k" * 1025 + ": 1\n",
        "{" * 20_000,
        "&" * 20_000,
        "x: " + "9" * 30_000 + "\n",
        "x: 0x" + "f" * 30_000 + "\n",
        "x: " + "1" * 3000 + "." + "1" * 3000 + "e1" + "0" * 3000 + "\n",
        "y: " * 20_000 + "\n",
        "".join(f"key{n}: {n}\n" for n in range(3000)),
        "\ufeff",
        "\x85\u2028\u2029",
    ]
)


@st.composite
def documents(draw: st.DrawFn, correct: Sequence[Mapping[str, Any]]) -> bytes:
    """The bytes of a YAML file: one of `correct`, with values replaced and with text or bytes damaged."""
    value = draw(_mutated(correct))
    text = _block(value) if draw(st.booleans()) else f"{json.dumps(value)}\n"
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        lines = text.splitlines(keepends=True)
        at = draw(st.integers(0, len(lines)))
        added = draw(st.one_of(_SNIPPETS, st.sampled_from(lines or ["x: 1\n"])))
        text = "".join([*lines[:at], added, *lines[at:]])
    raw = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 5)) == 0:
        at = draw(st.integers(0, len(raw)))
        raw = raw[:at] + draw(st.binary(max_size=4)) + raw[at + draw(st.integers(0, 4)) :]
    return raw
