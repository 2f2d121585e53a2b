"""`config/` as validated data: streams, drills, thresholds. A broken file breaks its own stream, nothing else."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streamwarden.config.airflow_limits import label_problems, schedule_problems
from streamwarden.config.collisions import rules_across
from streamwarden.config.isolation import isolated, printable
from streamwarden.config.kinds import leave_to_script
from streamwarden.config.ownership import TenureOf, without_history
from streamwarden.config.rules import name_problems, resolved, rules_of_one
from streamwarden.config.schema import parse, refusal
from streamwarden.config.yaml_document import read_document
from streamwarden.errors import ConfigError
from streamwarden.health.thresholds import DEFAULTS, Thresholds, validate_overrides
from streamwarden.lifecycle.location import DataUrl
from streamwarden.problems import ConfigFileError, KeyPath, Problem, show
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.drills.spec import DrillSpec

T = TypeVar("T")

STREAMS: Final = Path("config/streams")
DRILLS: Final = Path("config/drills")
THRESHOLDS: Final = Path("config/thresholds.yaml")

_OTHER_EXTENSIONS: Final = (".yml", ".json")
"""Of files that were meant as configuration: each is an error."""

_SET_HERE: Final = ("project", "data", "data_url", "file")
"""Fields of a spec that say where it came from. A file cannot set them."""

_SET_BY_FORKS: Final = ("fork", "last_batch")
"""Fields of a stream's spec that only its fork has."""


@dataclass(frozen=True)
class Catalog:
    """All streams of a project; `broken` is keyed by the stem of the file that cannot be used.

    Args:
        undeclared: streams that run without a file, each with the reason; see `services.fleet.undeclared`. Those whose
            settings are known are in `streams` too.
    """

    streams: dict[str, StreamSpec] = field(default_factory=dict)
    broken: dict[str, ConfigError] = field(default_factory=dict)
    undeclared: dict[str, ConfigError] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Every stream, whatever is wrong with its file."""
        return sorted({*self.streams, *self.broken, *self.undeclared})

    def get(self, name: str) -> StreamSpec:
        """The stream, or the ConfigError of its broken file, or one that lists the streams there are."""
        if name in self.streams:
            return self.streams[name]
        for stem in (name, *(f"{name}{extension}" for extension in _OTHER_EXTENSIONS)):
            if stem in self.broken:
                raise self.broken[stem]
        if name in self.undeclared:
            raise self.undeclared[name]
        raise unknown("stream", name, [*self.streams, *self.broken], "`streamwarden validate` lists all files")


def unknown(what: str, name: str, known: Collection[str], next_step: str) -> ConfigError:
    """The error for a name that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name, known, n=1)
    shown = sorted(known)[:20]
    names = ", ".join(shown) + (", …" if len(known) > len(shown) else "")
    return ConfigError(
        f"there is no {what} {name!r}",
        expected=f"one of: {names}" if shown else f"a {what} (none is configured)",
        next_step=f"did you mean {near[0]!r}?" if near else next_step,
    )


def load_stream(
    path: Path, *, project: Path, data: Path, data_url: DataUrl | None = None, thresholds: Thresholds = DEFAULTS
) -> StreamSpec:
    """The stream in `path`, checked alone.

    Raises ConfigFileError with all problems of its types; if there are none, with all rules that it breaks. Raises no
    other exception than ConfigError, whatever the file holds.

    Args:
        data_url: what relative paths are below, in place of the data folder.
        thresholds: the project's, which the stream's `health.thresholds` override.
    """
    with isolated(_shown(path, project)):
        document = read_document(path, file=_shown(path, project))
        limits: list[Problem] = []
        health = document.value.get("health")
        if isinstance(health, dict) and "thresholds" in health:
            at = ("health", "thresholds")
            health["thresholds"] = overrides(health["thresholds"], at, limits, base=thresholds)
        leave_to_script(document.value, project)
        raw = parse(StreamSpec, document, reserved=(*_SET_HERE, *_SET_BY_FORKS), also=limits)
        spec = resolved(raw, project=project, data=data, data_url=data_url, file=path)
        problems = rules_of_one(spec, raw, stem=path.stem, data=data)
        if problems:
            raise refusal(document, problems)
        return spec


def load_catalog(
    project: Path, data: Path, tenure_of: TenureOf = without_history, *, data_url: DataUrl | None = None
) -> Catalog:
    """Every stream of `project`. Raises ConfigError only if there is no folder `config/streams`.

    Args:
        tenure_of: says which of two streams that name one place keeps it.
        data_url: what relative paths are below, in place of the data folder.
    """
    try:
        thresholds = load_thresholds(project)
    except ConfigError:  # the health checks and `validate` report it; the streams are still usable
        thresholds = DEFAULTS
    of_one = partial(load_stream, project=project, data=data, data_url=data_url, thresholds=thresholds)
    streams, broken = _loaded(project, STREAMS, of_one)
    for name, problems in rules_across(streams.values(), tenure_of).items():
        broken[name] = ConfigFileError(_shown(Path(streams[name].file), project), problems)
    return Catalog({name: spec for name, spec in streams.items() if name not in broken}, broken)


def load_thresholds(project: Path) -> Thresholds:
    """The defaults with `config/thresholds.yaml` on top, if there is one. Raises ConfigFileError with all problems."""
    path = project / THRESHOLDS
    if not path.exists() and not path.is_symlink():
        return DEFAULTS
    with isolated(str(THRESHOLDS)):
        document = read_document(path, file=str(THRESHOLDS))
        problems: list[Problem] = []
        checked = overrides(document.value, (), problems)
        if problems:
            raise refusal(document, problems)
        return DEFAULTS.with_overrides(checked)


def overrides(
    raw: object, at: KeyPath, problems: list[Problem], *, base: Thresholds = DEFAULTS
) -> dict[str, dict[str, float]]:
    """The overrides in `raw`, in the units of the thresholds. An unusable one is left out and added to `problems`.

    Args:
        at: key path of `raw` in its file.
        base: the thresholds that are overridden.
    """
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        problems.append(Problem(key=at, observed=show(raw), allowed="a mapping: check -> threshold -> value"))
        return {}
    checked = (_of_one(check, values, at, problems, base) for check, values in raw.items())
    return {check: limits for of_one in checked for check, limits in of_one.items()}


def _of_one(
    check: str, values: Any, at: KeyPath, problems: list[Problem], base: Thresholds
) -> dict[str, dict[str, float]]:
    """One check's overrides. The validation stops at the first mistake, so that key is removed and the rest retried."""
    rest = dict(values) if isinstance(values, Mapping) else values
    while True:
        try:
            return validate_overrides({check: rest}, where="", base=base)
        except ConfigError as error:
            wrong = error.where.removeprefix(check).removeprefix(".")
            key = (*at, check, wrong) if wrong else (*at, check)
            problems.append(
                Problem(key=key, observed=error.observed, allowed=error.expected, next_step=error.next_step)
            )
            if not isinstance(rest, dict) or wrong not in rest:
                return {}
            del rest[wrong]


def load_drills(project: Path) -> tuple[dict[str, DrillSpec], dict[str, ConfigError]]:
    """The drills of `project` and, by file stem, the files that cannot be used."""
    if not (project / DRILLS).is_dir():
        return {}, {}
    return _loaded(project, DRILLS, partial(load_drill, project=project))


def load_drill(path: Path, *, project: Path) -> DrillSpec:
    """The drill in `path`. Raises ConfigFileError with all its problems. Does not check that its stream exists."""
    from streamwarden.drills.spec import DRILL_NAME, DrillSpec

    with isolated(_shown(path, project)):
        document = read_document(path, file=_shown(path, project))
        spec = parse(DrillSpec, document, reserved=_SET_HERE)
        problems = [
            *name_problems(spec.name, path.stem, DRILL_NAME),
            *label_problems(spec.owner, spec.tags),
            *schedule_problems(spec.schedule),
            *_unknown_checks(spec),
        ]
        if problems:
            raise refusal(document, problems)
        return replace(spec, file=str(path))


def _unknown_checks(spec: DrillSpec) -> list[Problem]:
    checks = sorted(DEFAULTS.values)
    return [
        Problem(
            key=("steady_state", "checks", index),
            observed=f"there is no check {name!r}",
            allowed=f"one of {', '.join(checks)}",
        )
        for index, name in enumerate(spec.steady_state.checks)
        if name not in checks
    ]


def _loaded(project: Path, folder: Path, load: Callable[[Path], T]) -> tuple[dict[str, T], dict[str, ConfigError]]:
    """The files of `folder` that can be used and the errors of the others, by stem."""
    home = project / folder
    if not home.is_dir():
        raise ConfigError(
            "the folder does not exist",
            expected="a folder with one YAML file for each stream",
            where=str(home),
            next_step="run from a project's folder or set STREAMWARDEN_PROJECT",
        )
    usable: dict[str, T] = {}
    broken: dict[str, ConfigError] = {}
    for path in sorted(home.iterdir()):
        if path.name.startswith(".") or path.suffix not in {".yaml", *_OTHER_EXTENSIONS}:
            continue
        if path.suffix != ".yaml":  # to leave a stream out silently would be worse than an error
            problem = Problem(
                observed=f"the extension {path.suffix}", allowed=".yaml", next_step=f"rename it to {path.stem}.yaml"
            )
            broken[printable(path.name)] = ConfigFileError(_shown(path, project), [problem])
            continue
        try:
            usable[path.stem] = load(path)
        except ConfigError as error:
            broken[printable(path.stem)] = error
    return usable, broken


def _shown(path: Path, project: Path) -> str:
    return printable(str(path.relative_to(project) if path.is_relative_to(project) else path))
