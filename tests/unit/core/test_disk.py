"""A file that is replaced is seen whole, before and after; a failed write changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden import disk


def test_a_write_that_fails_in_the_middle_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    disk.replace(path, "old")

    def write() -> None:
        with disk.replacing(path) as file:
            file.write(b"half")
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_new_content_is_invisible_until_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with disk.replacing(path, mode=disk.PRIVATE) as file:
        file.write("é".encode())
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == "é"
    assert path.stat().st_mode & 0o777 == 0o600
