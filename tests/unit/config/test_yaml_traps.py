"""YAML that is ambiguous or dangerous is refused with its line, never guessed."""

import os
import threading
import time
from pathlib import Path

import pytest

from streamwarden.config.yaml_document import MAX_BYTES, read_document
from streamwarden.problems import ConfigFileError


def refused(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigFileError) as caught:
        read_document(path, file="a.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("# only a comment\n", "the file is empty"),
        ("- a\n- b\n", "the file holds a list"),
        ("just words\n", "the file holds a single value"),
        ("a: 1\nb: 2\na: 3\n", "a.yaml:3: a: given twice, first on line 1"),
        ("x:\n  a: 1\n  a: 2\n", "a.yaml:3: x.a: given twice"),
        ("a:\n\tb: 1\n", "a.yaml:2: indented with a tab"),
        ("a: [1, 2\n", "invalid YAML"),
        ("a: b: c\n", "invalid YAML"),
        ("a: 1\n---\nb: 2\n", "a.yaml:2: a second document begins here"),
        ("a: &x 1\n", "the anchor &x"),
        ("a: *x\n", "the alias *x"),
        ("a: !!python/object/apply:os.system ['true']\n", "the tag"),
        ("a: !secret x\n", "the tag '!secret'"),
        ("a: !!int x\n", "'x' is not a value of its tag; expected int"),
        ("1: x\n", "the key '1' is not text"),
        ("? [a]\n: x\n", "is not text"),
        ("a: " + "[" * 2000 + "]" * 2000 + "\n", "nested more than"),
        (b"a: \xff\n", "a.yaml:1: byte 0xff is not UTF-8"),
        ("a: " + "x" * MAX_BYTES + "\n", f"larger than {MAX_BYTES} bytes"),
        ("a: " + "9" * 5000 + "\n", "a.yaml:1: a: the number '99999"),
        ("a: 9223372036854775808\n", "expected a whole number of at most 9223372036854775807"),
        ('a: "x\\0y"\n', "a.yaml:1: a: the character U+0000 in 'x\\x00y'"),
        ('"x\\0y": 1\n', "a.yaml:1: the character U+0000"),
    ],
)
def test_a_trap_is_named(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert message in refused(tmp_path / "a.yaml", text)


def test_the_anchor_bomb_is_refused_before_it_unfolds(tmp_path: Path) -> None:
    levels = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    started = time.monotonic()
    assert "no anchors and aliases" in refused(tmp_path / "a.yaml", "\n".join(levels))
    assert time.monotonic() - started < 2


def test_a_named_pipe_does_not_hang_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    os.mkfifo(path)
    errors: list[ConfigFileError] = []

    def read() -> None:
        try:
            read_document(path, file="a.yaml")
        except ConfigFileError as error:
            errors.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(10)
    assert not reader.is_alive()
    assert "not a regular file" in str(errors[0])


@pytest.mark.parametrize("kind", ["missing", "folder", "dangling link"])
def test_what_is_not_a_file_is_reported(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "dangling link":
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigFileError, match="no such file" if kind == "missing" else "not a regular file"):
        read_document(path, file="a.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2026-01-02", "2026-01-02"),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("true", True),
        ("~", None),
        ("", None),
        ("null", None),
        ("nonsense", "nonsense"),
        ("'1'", "1"),
        ("3.0.1", "3.0.1"),
    ],
)
def test_scalars_follow_yaml_1_2(tmp_path: Path, text: str, value: object) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"key: {text}\n")
    read = read_document(path, file="a.yaml").value["key"]
    assert read == value
    assert type(read) is type(value)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: a\n")
    assert read_document(path, file="a.yaml").value == {"name": "a"}
