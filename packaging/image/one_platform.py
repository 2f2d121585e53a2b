"""Takes the machine code that cannot run in the image out of RocksDB's jar: most of it is for other systems.

python one_platform.py FOLDER_OF_JARS
"""

import re
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

_NATIVE = re.compile(r"librocksdbjni-.*\.(so|dll|jnilib)")
_KEPT = {
    "librocksdbjni-linux64.so",
    "librocksdbjni-linux-aarch64.so",
}  # of glibc: the image is Debian's, on either processor


def reduced(jar: Path) -> None:
    """Write the jar again without the libraries of other systems."""
    small = jar.with_suffix(".small")
    with ZipFile(jar) as read, ZipFile(small, "w", ZIP_DEFLATED) as written:
        for entry in read.infolist():
            if entry.filename in _KEPT or not _NATIVE.fullmatch(entry.filename):
                written.writestr(entry, read.read(entry))
    small.replace(jar)


if __name__ == "__main__":
    (found,) = Path(sys.argv[1]).glob("rocksdbjni-*.jar")
    reduced(found)
