"""A new stream in a project: its job, its YAML file, its oracle, its drill and some input, from templates.

Nothing is overwritten: if anything of that name exists, nothing is written at all. Nor is anything written that
`validate` would refuse, such as a table for which the stream's Spark has no connector.
"""

import importlib.util
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.adapters.jvm.connectors import connectors, needed, options_of
from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.storage.moving import bring, exists
from streamwarden.checkpoint.filesystem import Location
from streamwarden.config.loading import DRILLS, STREAMS, load_stream
from streamwarden.config.places import resolve
from streamwarden.drills.spec import DRILL_NAME
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.location import DataUrl
from streamwarden.problems import ConfigFileError, KeyPath, Problem
from streamwarden.services.scaffolding.sinks import SINKS, USUAL
from streamwarden.stream.spec import NAME_PATTERN, StreamSpec

JOBS: Final = Path("spark_jobs")
DATA_FOLDERS: Final = ("input", "output", "checkpoints", "quarantine")
"""Folders of the data folder in which a stream of a template has one of its name."""


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of new stream.

    Args:
        folder: of its templates.
        files: template -> the file in the project; `{name}` stands for the stream, `{drill}` for its drill.
        sample: (file name, lines) of its input.
        last_command: to try after the start.
    """

    folder: str
    files: Mapping[str, str]
    sample: Callable[[], Iterable[tuple[str, str]]]
    last_command: str


FILES: Final = 20
"""Of sample input: at least as many as a drill's fork has batches."""

ORDERS_PER_FILE: Final = 1000

_BEGIN: Final = datetime(2025, 1, 6, 8, tzinfo=UTC)
_SHOPS: Final = ("north", "east", "south", "west")

_POEM: Final = """\
the stream goes on while the driver sleeps
the driver wakes and reads the words again
no word is lost and no word is counted twice
"""


def orders() -> Iterator[tuple[str, str]]:
    """(file name, lines): an order each second, over some five hours."""
    for file in range(FILES):
        numbers = range(file * ORDERS_PER_FILE, (file + 1) * ORDERS_PER_FILE)
        yield f"{file:04d}.json", "".join(f"{json.dumps(_order(number))}\n" for number in numbers)


def words() -> Iterator[tuple[str, str]]:
    """(file name, lines): a short text."""
    yield "poem.txt", _POEM


def _order(number: int) -> dict[str, object]:
    at = _BEGIN + timedelta(seconds=number)
    return {
        "order_id": f"o-{number:06d}",
        "event_time": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "shop": _SHOPS[number * 7 % 11 % len(_SHOPS)],
        "amount": 100 + number * 37 % 9900,
    }


JOB: Final = Template(
    folder="job",
    files={
        "job.py": f"{JOBS}/{{name}}.py",
        "oracle.py": f"{JOBS}/oracles/{{name}}.py",
        "stream.yaml": f"{STREAMS}/{{name}}.yaml",
        "drill.yaml": f"{DRILLS}/{{drill}}.yaml",
    },
    sample=orders,
    last_command="streamwarden drill run {drill}",
)

SCRIPT: Final = Template(
    folder="script",
    files={"job.py": f"{JOBS}/{{name}}.py", "stream.yaml": f"{STREAMS}/{{name}}.yaml"},
    sample=words,
    last_command="streamwarden logs {name} --follow",
)


_OPTIONS: Final[Mapping[KeyPath, str]] = {("spark", "python"): "--python", ("sink", "kind"): "--sink"}
"""Keys of a stream's file -> the option of `new` that sets them."""

_SCRATCH: Final = "streamwarden-new-"


@dataclass(frozen=True, slots=True)
class NewStream:
    """The written files, the folder or URL of the sample input, and the next commands."""

    files: Sequence[Path]
    input: str
    commands: Sequence[str]


def new_stream(
    name: str,
    template: Template,
    *,
    project: Path,
    data: Path | DataUrl,
    sink: str = USUAL,
    python: str | None = None,
) -> NewStream:
    """Write the files of a new stream.

    Args:
        sink: its kind, one of `SINKS`; a script brings its own.
        python: interpreter of the environment on whose Spark it runs; None: this one.

    Raises ConfigError if the name is not usable or not free, or if `validate` would refuse the stream, and
    CheckpointError if the storage of the data cannot be opened.
    """
    _require_name(name)
    places = [resolve(f"{folder}/{name}", data) for folder in DATA_FOLDERS]
    source = places[0]
    written_as = source if isinstance(data, DataUrl) else f"input/{name}"
    texts = rendered(name, template, written_as, sink=sink, python=python)
    try:
        spec = _validated(name, texts, data)
        _require_free(map(open_path, [*(str(project / path) for path in texts), *places]))
        for path, text in texts.items():
            _write(project / path, text)
        _bring(template.sample(), open_path(source))
    except OSError as error:
        raise ConfigError(
            f"the files cannot be written: {error.strerror or error}",
            expected="a project folder and a data folder that this user may write to",
            where=str(error.filename or project),
            next_step="correct the permissions, and remove what was written",
        ) from error
    last = template.last_command.format(name=name, drill=drill_name(name))
    commands = (*_preparing(spec), "streamwarden validate", f"streamwarden start {name}", last)
    return NewStream([project / path for path in texts], source, commands)


def _preparing(spec: StreamSpec) -> list[str]:
    """The commands that fetch the jars of its connectors."""
    return [f"streamwarden prepare {options_of(name, connectors()[name], spec)}" for name in needed(spec)]


def _validated(name: str, texts: Mapping[str, str], data: Path | DataUrl) -> StreamSpec:
    """The stream of these files, as `validate` reads it. Raises ConfigError if it would refuse it."""
    url = data if isinstance(data, DataUrl) else None
    with tempfile.TemporaryDirectory(prefix=_SCRATCH) as scratch:
        project = Path(scratch)
        for path, text in texts.items():
            _write(project / path, text)
        local = project / "var" if isinstance(data, DataUrl) else data
        try:
            return load_stream(project / STREAMS / f"{name}.yaml", project=project, data=local, data_url=url)
        except ConfigFileError as error:
            raise _refused(name, error.problems) from error


def _refused(name: str, problems: Sequence[Problem]) -> ConfigError:
    keys = [f"{each.dotted} ({_OPTIONS[each.key]})" if each.key in _OPTIONS else each.dotted for each in problems]
    return ConfigError(
        f"{_joined(each.observed for each in problems)}; nothing was written",
        expected=_joined(each.allowed for each in problems),
        where=f"{STREAMS / name}.yaml: {_joined(keys)}",
        next_step=_joined(each.next_step for each in problems),
    )


def _joined(parts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, parts)))


_FIRST: Final = 1_750_000_000
"""Modification time of the first file of input. Spark reads files in the order of these times: one second apart."""


def rendered(
    name: str, template: Template, source: str, *, sink: str = USUAL, python: str | None = None
) -> dict[str, str]:
    """Path below the project -> text.

    Args:
        source: of its input, as a script names it: a script's relative paths are always below the data folder.
        sink, python: as `new_stream` takes them.
    """
    drill = drill_name(name)
    interpreter = "" if python is None else f", python: {json.dumps(python, ensure_ascii=False)}"
    home = resources.files(__package__) / "templates" / template.folder
    return {
        path.format(name=name, drill=drill): (home / f"{file}.template")
        .read_text(encoding="utf-8")
        .replace("@SINK@", SINKS[sink])
        .replace("@NAME@", name)
        .replace("@DRILL@", drill)
        .replace("@INPUT@", source)
        .replace("@PYTHON@", interpreter)
        for file, path in template.files.items()
    }


def drill_name(name: str) -> str:
    """`kill_NAME`; the bare name where that would be too long."""
    drill = f"kill_{name}"
    return drill if DRILL_NAME.fullmatch(drill) else name


def _require_name(name: str) -> None:
    if not NAME_PATTERN.fullmatch(name) or "__" in name:
        raise ConfigError(
            f"{name!r} cannot be the name of a stream",
            expected=f"lower case, digits and `_` ({NAME_PATTERN.pattern}), without `__`",
            next_step="choose another name",
        )
    if importlib.util.find_spec(name) is not None:
        raise ConfigError(
            f"{name!r} is the name of a Python module, which the file {JOBS / name}.py would hide in the driver",
            expected="a name that no installed module has",
            next_step="choose another name",
        )


def _require_free(places: Iterable[Location]) -> None:
    taken = [place.path for place in places if exists(place) or Path(place.path).is_symlink()]
    if taken:
        raise ConfigError(
            f"{', '.join(taken)} exist{'s' if len(taken) == 1 else ''}; nothing was written",
            expected="a name of which there is no file and no data yet",
            next_step="choose another name, or move what is there",
        )


def _bring(sample: Iterable[tuple[str, str]], folder: Location) -> None:
    with tempfile.TemporaryDirectory(prefix=_SCRATCH) as scratch:
        for number, (name, lines) in enumerate(sample):
            file = Path(scratch, name)
            file.write_text(lines, encoding="utf-8")
            os.utime(file, (_FIRST + number, _FIRST + number))
            bring(open_path(file), folder / name)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    disk.replace(path, text, durable=False)
