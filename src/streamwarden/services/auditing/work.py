"""The folder in which an audit works: links to the checkpoint, and the files of its process.

It is in the data folder, which is usually on the disk of the checkpoint: only there can files be linked. An audit that
was killed leaves its folder, and the links in it keep the disk full: the next audit or `housekeeping` removes it.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from streamwarden.disk import locked, private_folder
from streamwarden.services.auditing.records import FOLDER
from streamwarden.stream.spec import StreamSpec

WORK: Final = ".work"
"""Below `audits` of the data folder, beside the evidence of each stream."""

_LOCK: Final = "lock"
"""Of an audit's folder: its audit holds it. Of the folder above: held while one is made or removed."""


@contextmanager
def work_folder(spec: StreamSpec) -> Iterator[Path]:
    """A private folder for one audit, which is removed afterwards. Raises OSError."""
    if not spec.data:
        with tempfile.TemporaryDirectory(prefix="streamwarden-audit-") as scratch:
            yield Path(scratch)
        return
    root = Path(spec.data) / FOLDER / WORK
    private_folder(root, below=Path(spec.data))
    remove_abandoned(Path(spec.data))
    with ExitStack() as own:
        with locked(root / _LOCK):
            folder = Path(tempfile.mkdtemp(prefix=f"{spec.name}-", dir=root))
            own.enter_context(locked(folder / _LOCK))  # the kernel ends it, however this process ends
            own.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


def remove_abandoned(data: Path) -> int:
    """Remove the folders of audits whose process is gone; returns how many were removed.

    Args:
        data: the data folder.

    Raises OSError.
    """
    root = data / FOLDER / WORK
    if not root.is_dir():
        return 0
    with locked(root / _LOCK):
        gone = [folder for folder in root.iterdir() if folder.is_dir() and not _is_held(folder / _LOCK)]
        for folder in gone:
            shutil.rmtree(folder, ignore_errors=True)
    return sum(not folder.exists() for folder in gone)


def _is_held(path: Path) -> bool:
    with locked(path, wait=0) as file:
        return file is None
