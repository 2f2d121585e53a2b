"""Makes the twins of a drill's fork, each with its own checkpoint, input and output, and removes them."""

from pathlib import Path
from typing import Final, Literal

from streamwarden import disk
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.forks.fork import Fork
from streamwarden.lifecycle.forks.places import Places
from streamwarden.services.forks.files import remove_folder, require_own
from streamwarden.services.forks.forks import drop_output, fork
from streamwarden.services.forks.spec import forked_spec
from streamwarden.services.forks.working_folder import renew_working_folder
from streamwarden.services.twins.running import Twin, end_left
from streamwarden.stream.spec import StreamSpec

TWIN: Final = "runs"
"""The folder of the twins, beside the fork's. Its name reaches the job, which must not see that it runs in a twin."""

FORK: Final = "fork"
"""The folder of each twin in its own: it has the name of the fork's, which is beside `TWIN`."""

START: Final = "start"
"""The folder of the fork as it was before its first driver, from which each twin of a rewound fork is made."""

PROGRAM: Final = "program"
_SCRATCH: Final = ("input", "checkpoint/state", "checkpoint/*/state", f"{PROGRAM}/{files.TEMPORARY}")
"""The parts of a twin that are not evidence. Its logs and its output stay."""


def keep_start(fork_spec: StreamSpec, home: Path, rewind: int = 0) -> Fork:
    """Keep the fork as it is now: it has taken over batches of its origin, and no driver has run on it.

    Args:
        fork_spec: of the fork; for an upgrade, of the stream itself.
        home: the folder of the twins.
        rewind: keep it as it was so many batches before.

    Raises as `services.forks.forks.fork` does.
    """
    return _made(fork_spec, home, START, rewind)


def make(fork_spec: StreamSpec, home: Path, number: int, *, rewound: bool) -> Twin:
    """The twin with this number, which begins as the fork began. What a killed attempt left is removed first.

    Args:
        rewound: the fork took over batches of its origin, as `keep_start` kept them.

    Raises as `services.forks.forks.fork` and `running.end_left` do.
    """
    origin = _forked(fork_spec, home / START / FORK) if rewound else fork_spec
    spec = _made(origin, home, str(number), 0 if rewound else "all").spec
    renew_working_folder(home.parent)
    into = home / str(number) / FORK
    return Twin(spec=spec, places=Places.under(str(into)), run=fork_spec, folder=into / PROGRAM)


def clear(fork_spec: StreamSpec | None, home: Path, *, whole: bool) -> list[str]:
    """End the processes of the twins of a fork, and remove their tables, topics and scratch. Returns their names.

    Args:
        fork_spec: of the fork, or the one that was planned; None: nothing is known, and no twin was made.
        whole: remove the evidence too.

    Raises CheckpointError if the database or the broker refuses; VerificationError if a process does not end.
    """
    require_own(home, below=home.parent)
    if not home.is_dir():
        return []
    removed = []
    for number in sorted(entry for entry in home.iterdir() if entry.is_dir()):
        folder = number / FORK
        require_own(folder, below=home.parent)
        end_left(folder / PROGRAM)
        files.tidy(folder / PROGRAM)
        if fork_spec is not None and (output := drop_output(_forked(fork_spec, folder))) is not None:
            removed.append(output)
        scratch = [number] if number.name == START else [path for part in _SCRATCH for path in folder.glob(part)]
        removed += [str(path.relative_to(home.parent)) for path in scratch if remove_folder(path, below=home.parent)]
    if whole and remove_folder(home, below=home.parent):
        removed.append(home.name)
    return removed


def _made(origin: StreamSpec, home: Path, name: str, rewind: int | Literal["all"]) -> Fork:
    into = home / name / FORK
    disk.private_folder(into.parent, below=home.parent)
    if into.is_dir():
        end_left(into / PROGRAM)
        remove_folder(into, below=home.parent)
    disk.private_folder(into, below=home.parent)
    return fork(origin, into=into, rewind=rewind)


def _forked(spec: StreamSpec, into: Path) -> StreamSpec:
    """The spec of a fork in that folder, which names its table or its topic."""
    return forked_spec(spec, Places.under(str(into)))
