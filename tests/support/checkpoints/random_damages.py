"""Random damages to checkpoints that real Sparks wrote, each a function of its archive and its seed alone.

A `Tree` is a checkpoint with its output in memory: path below the root -> content. It is damaged before the paths in it
are moved to the folder of a test, so a seed means the same damage on every machine.
"""

from __future__ import annotations

import json
import os
import random
import re
import struct
import tarfile
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from streamwarden.checkpoint.formats.uris import to_uri
from support.checkpoints.recorded import ARCHIVES, MADE_IN

Tree = dict[str, bytes]
Damager = Callable[[random.Random, Tree, str], str]
"""Damages one file of a tree and says how."""

_CRC_CHUNK = 512
_PLACES = {
    "metadata": r"checkpoint/metadata",
    "offsets": r"checkpoint/offsets/\d+",
    "commits": r"checkpoint/commits/\d+",
    "sources": r"checkpoint/sources/\d+/\d+(\.compact)?",
    "manifest": r"output/_spark_metadata/\d+(\.compact)?",
    "operator": r"checkpoint/state/\d+/_metadata/(metadata|v2/\d+)",
    "schema": r"checkpoint/state/\d+/\d+/(\S+/)?_metadata/schema",
    "changes": r"checkpoint/state/\d+/\d+/\S+\.(changelog|delta)",
    "snapshots": r"checkpoint/state/\d+/\d+/\S+\.(zip|snapshot)",
    "tables": r"checkpoint/state/\d+/\d+/SSTs/\S+\.sst",
    "output": r"output/part-\S+\.parquet",
    "checksums": r"checkpoint/\S*\.crc",
}
"""What is damaged -> its paths. Each place is as likely as any other that the tree has."""
_LOGS = frozenset({"metadata", "offsets", "commits", "sources", "manifest", "operator"})
_NEWEST = 3
"""Files of a place that the next start probably reads; two thirds of the damages hit one of them."""


def load(archive: str, *, checksums: bool) -> tuple[Tree, dict[str, float]]:
    """The checkpoint of an archive, and when each file was written.

    Args:
        checksums: with Hadoop's checksum files, as on a local disk; without them it is as in an object store.
    """
    tree, times = _load(archive)
    kept = {path: content for path, content in tree.items() if checksums or not path.endswith(".crc")}
    return kept, dict(times)


def damage(tree: Tree, seed: int) -> str:
    """Damage the tree at random; returns what was done. The same seed does the same to the same tree."""
    rng = random.Random(seed)  # reproducible on purpose
    while True:
        place = rng.choice(sorted(_PLACES))
        found = sorted((path for path in tree if re.fullmatch(_PLACES[place], path)), key=_natural)
        if not found:
            continue
        path = rng.choice(found[-_NEWEST:] if rng.random() < 2 / 3 else found)
        damagers = {**_OF_FILES, **(_OF_LOGS if place in _LOGS else {})}
        name = rng.choice(sorted(damagers))
        before = dict(tree)
        what = damagers[name](rng, tree, path)
        if tree != before:
            return f"{path}: {name}{f' ({what})' if what else ''}"


def lay_out(tree: Tree, times: Mapping[str, float], archive: str, into: Path) -> None:
    """Write the tree below `into`, with the paths in its logs moved there. A checksum that was right stays right."""
    made_in, here = f"{MADE_IN}/{archive}".encode(), to_uri(str(into)).removeprefix("file://").encode()
    for folder in {path.rpartition("/")[0] for path in tree}:
        (into / folder).mkdir(parents=True, exist_ok=True)
    for path, content in tree.items():
        target = into / path
        target.write_bytes(
            _moved(tree, path, made_in, here) if path.endswith(".crc") else content.replace(made_in, here)
        )
        os.utime(target, (times.get(path, 0),) * 2)


def _moved(tree: Tree, path: str, made_in: bytes, here: bytes) -> bytes:
    folder, _, name = path.rpartition("/")
    content = tree.get(f"{folder}/{name.removeprefix('.').removesuffix('.crc')}")
    if content is None or made_in not in content or tree[path] != checksum(content):
        return tree[path]
    return checksum(content.replace(made_in, here))


def checksum(content: bytes) -> bytes:
    """The content of Hadoop's checksum file."""
    chunks = (content[start : start + _CRC_CHUNK] for start in range(0, len(content), _CRC_CHUNK))
    return b"crc\0" + struct.pack(">i", _CRC_CHUNK) + b"".join(struct.pack(">I", zlib.crc32(each)) for each in chunks)


@cache
def _load(archive: str) -> tuple[Tree, dict[str, float]]:
    tree, times = {}, {}
    with tarfile.open(ARCHIVES / f"{archive}.tar.gz") as packed:
        for each in packed.getmembers():
            stream = packed.extractfile(each)
            if stream is not None:
                tree[each.name], times[each.name] = stream.read(), each.mtime
    return tree, times


def _natural(path: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path)]


def _truncate(rng: random.Random, tree: Tree, path: str) -> str:
    kept = rng.randrange(len(tree[path]) + 1)
    tree[path] = tree[path][:kept]
    return f"to {kept} bytes"


def _empty(rng: random.Random, tree: Tree, path: str) -> str:
    tree[path] = b""
    return ""


def _flip(rng: random.Random, tree: Tree, path: str) -> str:
    content = bytearray(tree[path])
    if content:
        at, bit = rng.randrange(len(content)), rng.randrange(8)
        content[at] ^= 1 << bit
        tree[path] = bytes(content)
        return f"bit {bit} of byte {at}"
    return ""


def _delete(rng: random.Random, tree: Tree, path: str) -> str:
    del tree[path]
    crc = _crc_of(path)
    if rng.random() < 2 / 3:
        tree.pop(crc, None)
        return "with its checksum"
    return ""


def _delete_folder(rng: random.Random, tree: Tree, path: str) -> str:
    folder = path.rpartition("/")[0]
    if folder in ("checkpoint", "output"):
        return ""
    for each in [each for each in tree if each.startswith(f"{folder}/")]:
        del tree[each]
    return folder


def _swap(rng: random.Random, tree: Tree, path: str) -> str:
    other = rng.choice(_siblings(tree, path))
    tree[path], tree[other] = tree[other], tree[path]
    return f"with {other}"


def _copy(rng: random.Random, tree: Tree, path: str) -> str:
    other = rng.choice(_siblings(tree, path))
    tree[path] = tree[other]
    return f"of {other}"


def _garbage(rng: random.Random, tree: Tree, path: str) -> str:
    tree[path] = rng.randbytes(len(tree[path]) or 100)
    return ""


def _append(rng: random.Random, tree: Tree, path: str) -> str:
    tree[path] += rng.choice((b"\n", b"\0", b"x", b"}", b"\n{}", rng.randbytes(7)))
    return repr(tree[path][-7:])


def _extra(rng: random.Random, tree: Tree, path: str) -> str:
    folder, _, name = path.rpartition("/")
    number = re.match(r"\d+", name)
    names = ["stray", ".hidden", "tmp.123.tmp", f"{name}.bak"]
    if number:
        next_one = int(number.group()) + 1
        names += [f"{next_one}{name[number.end() :]}", f"0{name}", f"{next_one * 10**7}{name[number.end() :]}"]
    added = f"{folder}/{rng.choice(names)}"
    tree[added] = rng.choice((tree[path], b"", b"v1\n"))
    return f"{added}, {len(tree[added])} bytes"


def _not_utf8(rng: random.Random, tree: Tree, path: str) -> str:
    at = rng.randrange(len(tree[path]) + 1)
    tree[path] = tree[path][:at] + b"\xff" + tree[path][at:]
    return f"at byte {at}"


def _duplicate_line(rng: random.Random, tree: Tree, path: str) -> str:
    lines = tree[path].split(b"\n")
    at = rng.randrange(len(lines))
    tree[path] = b"\n".join(lines[: at + 1] + lines[at:])
    return f"line {at}"


def _drop_last_line(rng: random.Random, tree: Tree, path: str) -> str:
    tree[path] = b"\n".join(tree[path].split(b"\n")[:-1])
    return ""


def _drop_line(rng: random.Random, tree: Tree, path: str) -> str:
    lines = tree[path].split(b"\n")
    at = rng.randrange(len(lines))
    tree[path] = b"\n".join(lines[:at] + lines[at + 1 :])
    return f"line {at}"


def _drop_version(rng: random.Random, tree: Tree, path: str) -> str:
    tree[path] = b"\n".join(tree[path].split(b"\n")[1:])
    return ""


def _blank_line(rng: random.Random, tree: Tree, path: str) -> str:
    lines = tree[path].split(b"\n")
    at = rng.randrange(len(lines) + 1)
    tree[path] = b"\n".join([*lines[:at], b"", *lines[at:]])
    return f"before line {at}"


def _version(rng: random.Random, tree: Tree, path: str) -> str:
    given = rng.choice((b"v0", b"v2", b"v3", b"v4", b"v-1", b"v01", b"V1", b"v", b"1", b"v1 ", b"v99999999999"))
    tree[path] = b"\n".join([given, *tree[path].split(b"\n")[1:]])
    return given.decode()


def _ids(rng: random.Random, tree: Tree, path: str) -> str:
    """Another number, or another UUID."""
    found = list(re.finditer(rb"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=:)\d+", tree[path]))
    if not found:
        return ""
    match = rng.choice(found)
    old = match.group()
    new = str(rng.choice((0, -1, 1, 10**6, 10**19, int(old) + 1, int(old) // 2))).encode() if old.isdigit() else (
        rng.choice((old[:-1], b"x" + old[1:], old[::-1], b"00000000-0000-4000-8000-000000000000"))
    )  # fmt: skip
    tree[path] = tree[path][: match.start()] + new + tree[path][match.end() :]
    return f"{old.decode()} -> {new.decode()}"


def _types(rng: random.Random, tree: Tree, path: str) -> str:
    """A value of another type in a JSON object."""
    values = (None, True, "text", "7", 1.5, -1, [], {}, [[1]], {"a": 1}, 10**30)
    return _edit(rng, tree, path, lambda body, key: body.__setitem__(key, rng.choice(values)))


def _drop_key(rng: random.Random, tree: Tree, path: str) -> str:
    return _edit(rng, tree, path, lambda body, key: body.__delitem__(key))


def _edit(rng: random.Random, tree: Tree, path: str, change: Callable[[dict[str, object], str], None]) -> str:
    lines = tree[path].split(b"\n")
    objects = [at for at, line in enumerate(lines) if line.startswith(b"{") and line != b"{}"]
    if not objects:
        return ""
    at = rng.choice(objects)
    try:
        body = whole = json.loads(lines[at])
    except ValueError:
        return ""
    if isinstance(inner := body.get("conf"), dict) and rng.random() < 2 / 3:
        body = inner
    key = rng.choice(sorted(body))
    change(body, key)
    lines[at] = json.dumps(whole, separators=(",", ":")).encode()
    tree[path] = b"\n".join(lines)
    return f"{key}: {json.dumps(body.get(key)) if key in body else 'gone'}"


def _crc_of(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"


def _siblings(tree: Tree, path: str) -> list[str]:
    """Other files of the same folder; the file itself if it is alone."""
    folder = path.rpartition("/")[0]
    crc = path.endswith(".crc")
    found = [each for each in tree if each.rpartition("/")[0] == folder and each.endswith(".crc") is crc]
    return sorted(each for each in found if each != path) or [path]


_OF_FILES: Mapping[str, Damager] = {
    "truncate": _truncate,
    "empty": _empty,
    "flip": _flip,
    "flip again": _flip,
    "delete": _delete,
    "delete folder": _delete_folder,
    "swap": _swap,
    "copy": _copy,
    "garbage": _garbage,
    "append": _append,
    "extra file": _extra,
}
_OF_LOGS: Mapping[str, Damager] = {
    "not UTF-8": _not_utf8,
    "duplicate line": _duplicate_line,
    "drop last line": _drop_last_line,
    "drop line": _drop_line,
    "drop version": _drop_version,
    "blank line": _blank_line,
    "wrong version": _version,
    "wrong id": _ids,
    "wrong type": _types,
    "drop key": _drop_key,
}
