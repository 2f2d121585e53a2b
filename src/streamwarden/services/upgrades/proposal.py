"""A proposed upgrade: the stream's file as it is, and as it would be. The file is the one thing that a switch changes.

Both versions of a job are files of the project, side by side: replacing a file in place would also change it for every
other stream that uses it, and would leave nothing to go back to.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from streamwarden.config.loading import load_stream
from streamwarden.errors import ConfigError
from streamwarden.health.thresholds import Thresholds
from streamwarden.lifecycle.location import DataUrl
from streamwarden.services.forks.scripts import is_script
from streamwarden.services.upgrades.editing import edited, value_at
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_list


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Args:
    before, after: the stream as its file declares it now, and as it would.
    old_text, new_text: of the file.
    """

    before: StreamSpec
    after: StreamSpec
    old_text: str
    new_text: str


def propose(spec: StreamSpec, job: Path | None, file: Path | None, thresholds: Thresholds) -> Proposal:
    """The upgrade of a stream to another job, or to another file of the stream.

    Args:
        job: the new version, a file of the project; file: the text that the stream's file would have.

    Raises ConfigError if there is nothing to change, the file would be broken, or it would be another stream's.
    """
    where = Path(spec.file)
    try:
        old_text = where.read_text(encoding="utf-8")
        new_text = with_job(old_text, job, spec) if file is None else file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{error.filename} cannot be read: {error.strerror}", expected="a file", next_step="correct the path"
        ) from error
    after = loaded(new_text, spec, thresholds)
    _require_upgrade(spec, after)
    return Proposal(before=spec, after=after, old_text=old_text, new_text=new_text)


def with_job(text: str, job: Path | None, spec: StreamSpec) -> str:
    """The text of a stream's file with another `job`; all else stays, comments too. Raises ConfigError."""
    if job is None or value_at(text, ("job",)) is None:
        raise ConfigError(
            "the stream's file has no key `job`" if job else "no new version was named",
            expected="`--job NEW.py`, and a file that names its job",
            where=spec.file,
            next_step="write the new file of the stream elsewhere, and name it with `--file`",
        )
    path = job.absolute()
    inside = path.resolve().is_relative_to(Path(spec.project).resolve())
    named = path.resolve().relative_to(Path(spec.project).resolve()).as_posix() if inside else path.as_posix()
    return edited(text, {("job",): named}, spec.file)


def loaded(text: str, spec: StreamSpec, thresholds: Thresholds) -> StreamSpec:
    """The stream that a text declares, checked as its file would be."""
    with TemporaryDirectory(prefix="streamwarden-upgrade-") as scratch:
        candidate = Path(scratch) / Path(spec.file).name
        candidate.write_text(text, encoding="utf-8")
        loaded = load_stream(
            candidate,
            project=Path(spec.project),
            data=Path(spec.data),
            data_url=DataUrl(spec.data_url) if spec.data_url else None,
            thresholds=thresholds,
        )
    return replace(loaded, file=spec.file)


def require_upgradable(spec: StreamSpec) -> None:
    """Raises ConfigError for a stream that cannot be upgraded, or to which no stream can be."""
    obstacle = why_not_tried(spec)
    if obstacle is not None:
        by_hand = "upgrade it by hand: see savepoints.md"
        step = "take a savepoint, change the script, and run a drill: forks of scripts begin with empty checkpoints"
        raise _refused(spec, obstacle, step if is_script(spec) else by_hand)


def why_not_tried(spec: StreamSpec) -> str | None:
    """Why no twin on this host can execute the stream's batches; None: one can."""
    if spec.spark.deploy_mode is DeployMode.CLUSTER:
        return "the stream's driver runs in the cluster"
    return "the job is a script, which opens its own checkpoint" if is_script(spec) else None


def _require_upgrade(before: StreamSpec, after: StreamSpec) -> None:
    if before == after:
        raise _refused(before, "nothing changes: the stream's file says so already", "name another job")
    require_upgradable(before)
    require_upgradable(after)
    changed = [name for name, place in _places(before).items() if _places(after)[name] != place]
    if changed:
        step = "give the stream a new name: what reads or writes elsewhere is another stream"
        raise _refused(before, f"{format_list(changed)} would change", step)


def _places(spec: StreamSpec) -> dict[str, object]:
    """What an upgrade keeps: the places of a stream, and how it writes there."""
    sink = spec.sink
    return {
        "checkpoint": spec.checkpoint,
        "source": (spec.source.kind, spec.source.path, getattr(spec.source, "topic", None)),
        "sink": (sink.kind, sink.place, sink.mode),
        "quarantine": spec.quarantine,
    }


def _refused(spec: StreamSpec, observed: str, next_step: str) -> ConfigError:
    return ConfigError(
        f"{spec.name} cannot be upgraded so: {observed}",
        expected="a job with build(spark, spec) that goes on with the stream's checkpoint, source and sink",
        where=spec.file,
        next_step=next_step,
    )
