"""A class of the JVM without a compiler: the bytes of `public class NAME extends PARENT { public NAME() {} }`."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

JAVA_8 = 52
PUBLIC, SUPER = 0x0001, 0x0020
ALOAD_0, INVOKESPECIAL, RETURN = 0x2A, 0xB7, 0xB1


def subclass(name: str, parent: str) -> bytes:
    """The class file (chapter 4 of the JVM specification). Names are full, with dots."""

    def utf8(text: str) -> bytes:
        return struct.pack(">BH", 1, len(text.encode())) + text.encode()

    def class_at(index: int) -> bytes:
        return struct.pack(">BH", 7, index)

    pool = [
        struct.pack(">BHH", 10, 3, 9),  # 1: the parent's constructor
        class_at(4),  # 2: this class
        class_at(5),  # 3: its parent
        utf8(name.replace(".", "/")),  # 4
        utf8(parent.replace(".", "/")),  # 5
        utf8("<init>"),  # 6
        utf8("()V"),  # 7
        utf8("Code"),  # 8
        struct.pack(">BHH", 12, 6, 7),  # 9: <init>()V
    ]
    code = struct.pack(">BBHB", ALOAD_0, INVOKESPECIAL, 1, RETURN)
    body = struct.pack(">HHI", 1, 1, len(code)) + code + struct.pack(">HH", 0, 0)
    constructor = struct.pack(">HHHH", PUBLIC, 6, 7, 1) + struct.pack(">HI", 8, len(body)) + body
    return b"".join(
        [
            struct.pack(">IHH", 0xCAFEBABE, 0, JAVA_8),
            struct.pack(">H", len(pool) + 1),
            *pool,
            struct.pack(">HHH", PUBLIC | SUPER, 2, 3),
            struct.pack(">HH", 0, 0),  # no interfaces, no fields
            struct.pack(">H", 1),
            constructor,
            struct.pack(">H", 0),
        ]
    )


def jar(path: Path, classes: dict[str, bytes]) -> Path:
    """A jar with these classes, by full name."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in classes.items():
            archive.writestr(name.replace(".", "/") + ".class", content)
    return path
