"""Damages to a forked query: what is done to its files below `checkpoint/` and `output/`.

Names are patterns below the fork. The files are hard links of the origin's, so each is replaced by a copy before it is
damaged; a fork has no checksum files beside its files.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

Breakage = Callable[[Path], object]


def lose(*names: str) -> Breakage:
    return lambda fork: [each.unlink() if each.is_file() else shutil.rmtree(each) for each in find(fork, names)]


def halve(*names: str) -> Breakage:
    return lambda fork: [each.write_bytes(each.read_bytes()[: each.stat().st_size // 2]) for each in find(fork, names)]


def empty(*names: str) -> Breakage:
    return lambda fork: [_cut(each, 0) for each in find(fork, names)]


def flip(*names: str) -> Breakage:
    """One bit in the middle. A fork has no checksum files beside its state: only the file itself can tell."""

    def apply(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x40
        path.write_bytes(bytes(content))

    return lambda fork: [apply(each) for each in find(fork, names)]


def both(*damages: Breakage) -> Breakage:
    return lambda fork: [damage(fork) for damage in damages]


def edit(name: str, old: str, new: str) -> Breakage:
    def apply(path: Path) -> None:
        assert old in path.read_text(), path
        path.write_text(path.read_text().replace(old, new, 1))

    return lambda fork: [apply(each) for each in find(fork, (name,))]


def write(name: str, content: str) -> Breakage:
    """A file of this content, whether there was one or not."""

    def apply(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.write_text(content)

    return lambda fork: apply(fork / name)


def copy(name: str, to: str) -> Breakage:
    return lambda fork: (fork / to).write_bytes((fork / name).read_bytes())


def lose_data_of(entry: str) -> Breakage:
    """The files that an entry of the manifest names."""

    def apply(fork: Path) -> None:
        for line in (fork / entry).read_text().splitlines()[1:]:
            (fork / "output" / json.loads(line)["path"].rpartition("/")[2]).unlink()

    return apply


def compact(log: str, upto: int) -> Breakage:
    """As Spark compacts a log in batch `upto` and later purges the entries that it has repeated there."""

    def apply(fork: Path) -> None:
        entries = [fork / log / str(batch) for batch in range(upto + 1)]
        lines = [line for entry in entries for line in entry.read_text().splitlines()[1:]]
        (fork / log / f"{upto}.compact").write_text("\n".join(("v1", *lines)))
        for entry in entries:
            entry.unlink()

    return apply


def age(entry: str) -> Breakage:
    """As if another run had written the entry, long ago."""
    return lambda fork: [
        each.write_text(re.sub(r'"modificationTime":\d+', '"modificationTime":1500000000000', each.read_text()))
        for each in find(fork, (entry,))
    ]


def _cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def find(fork: Path, names: tuple[str, ...]) -> list[Path]:
    """The files are hard links of the origin's: each is replaced by a copy before it is damaged."""
    found = [path for name in names for path in sorted(fork.glob(name))]
    assert found, f"nothing to damage: {names}"
    for path in found:
        if path.is_file():
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content)
    return found
