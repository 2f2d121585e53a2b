"""Looks at the state of a stream as it was after a batch, while the stream runs or is stopped.

The reading runs in a process with a low priority and bounded memory. It reads hard links to the checkpoint's files, or
copies of them, and writes nothing to the stream's places.
"""

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from streamwarden.config.schema import load
from streamwarden.errors import CheckpointError, ConfigError, ProcessError
from streamwarden.lifecycle.surgery.assignment import Assign
from streamwarden.lifecycle.surgery.rewriting import Rewrite
from streamwarden.lifecycle.time_travel.answers import (
    Answer,
    Asked,
    Difference,
    Exported,
    History,
    Question,
    Refused,
    Shown,
)
from streamwarden.lifecycle.time_travel.tables import StateTable, choose_table
from streamwarden.services.fleet.launching.one_off_spark import in_quick_jvm, on_this_host, run_program
from streamwarden.services.state.gathering import Held, Layout, held
from streamwarden.stream.spec import StreamSpec

MEMORY: Final = 2**30
"""Bytes of the heap of the reading process. RocksDB's state stays on its disk; of an HDFS-backed one a whole partition
is in the heap, so there it is at least that of the stream's driver."""

_CORES: Final = 2
"""Cores of a process for which a stopped stream waits."""

_WITHIN: Final = 3600.0
"""Seconds after which a look is given up."""

_CONF: Final = {
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "128",
}

_FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"
"""The offset log does not say it, and the reader fails on names of files of another format than its own."""

_Of = TypeVar("_Of", bound=Answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The part of the state that is looked at. None: the only one; keys: values of `--key`, none for all."""

    operator: int | None = None
    variable: str | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look(Generic[_Of]):
    """What was seen.

    Args:
        batches: at which the state was looked at, ascending. committed_at: of the last, Unix seconds; None: unknown.
        kept: batches that can be looked at.
    """

    stream: str
    table: StateTable
    batches: tuple[int, ...]
    committed_at: float | None
    kept: tuple[int, ...]
    answer: _Of


def show(spec: StreamSpec, chosen: Selection, *, batch: int | None = None, rows: int = 20) -> Look[Shown]:
    """The state after a batch, by default after the newest that is kept.

    Raises CheckpointError, ConfigError, ProcessError; see `_look`. Keys that no row has are a CheckpointError.
    """
    with held(spec) as state:
        at = state.batch(batch)
        look = _look(spec, state, chosen, Asked.SHOW, (at,), Shown, limit=rows)
    if chosen.keys and not look.answer.rows:
        raise _no_key(spec, chosen, f"after batch {at}")
    return look


def history(spec: StreamSpec, chosen: Selection, *, last: int | None = None, rows: int = 3) -> Look[History]:
    """The rows of the chosen keys after each batch that is kept, or after the `last` ones. Raises as `show`."""
    with held(spec) as state:
        state.batch(None)  # raises if none is kept
        batches = state.kept[-last:] if last else state.kept
        look = _look(spec, state, chosen, Asked.HISTORY, batches, History, limit=rows)
    if not any(moment.rows for moment in look.answer.moments):
        raise _no_key(spec, chosen, "after any batch that is kept")
    return look


def diff(
    spec: StreamSpec, chosen: Selection, *, before: int, after: int | None = None, rows: int = 20
) -> Look[Difference]:
    """The difference between the states after two batches. Raises as `show`."""
    with held(spec) as state:
        batches = (state.batch(before), state.batch(after))
        if batches[0] >= batches[1]:
            raise ConfigError(
                f"batch {batches[0]} does not come before batch {batches[1]}",
                expected="an earlier batch as --from, a later one as --to",
                where=spec.name,
                next_step="exchange them, or name others",
            )
        return _look(spec, state, chosen, Asked.DIFF, batches, Difference, limit=rows)


def export(
    spec: StreamSpec, chosen: Selection, *, batch: int | None, format: str, take: Callable[[Path, Look[Exported]], None]
) -> Look[Exported]:
    """The whole table after a batch, written by Spark and handed to `take` with its folder. Raises as `show`."""
    with held(spec) as state:
        look = _look(spec, state, chosen, Asked.EXPORT, (state.batch(batch),), Exported, format=format)
        if chosen.keys and not look.answer.rows:
            raise _no_key(spec, chosen, f"after batch {look.batches[0]}")
        take(state.folder / "export", look)
    return look


def _look(
    spec: StreamSpec,
    state: Held,
    chosen: Selection,
    asked: Asked,
    batches: tuple[int, ...],
    kind: type[_Of],
    **more: Any,
) -> Look[_Of]:
    """Ask the reading process.

    Raises:
        ConfigError: the state has no such table, or its key no such field.
        CheckpointError: Spark cannot read the state.
        ProcessError: there is no usable Java, or the reading process died.
    """
    table = choose_table(state.layout.tables, chosen.operator, chosen.variable, spec.name)
    question = Question(
        asked=asked, checkpoint=state.for_reading(batches), table=table, batches=batches, keys=chosen.keys, **more
    )
    return Look(
        stream=spec.name,
        table=table,
        batches=batches,
        committed_at=state.committed_at(batches[-1]),
        kept=state.kept,
        answer=load(kind, ask(spec, state.folder, state.layout, [question])[0]),
    )


def ask(
    spec: StreamSpec,
    folder: Path,
    layout: Layout,
    questions: Sequence[Question | Rewrite | Assign],
    *,
    program: str = "state",
    waits: bool = False,
) -> list[Any]:
    """The answers of a process on state as JSON, in the order of the questions. Raises as `show`.

    Args:
        waits: a stopped stream waits for them: the process has the priority of any other and more time, and more cores
            unless it has a whole partition in its heap.
    """
    cores = _CORES if waits and not layout.in_memory else 1
    share, within = (None, 6 * _WITHIN) if waits else (1.0, _WITHIN)
    (folder / "request.json").write_text(json.dumps([asdict(one) for one in questions]), encoding="utf-8")
    try:
        process = reader(spec, layout, cores=cores)
        status = run_program(program, process, folder, reads=spec, within=within, share=share)
    except subprocess.TimeoutExpired as error:
        raise _died(spec, f"the reading took longer than {within:.0f} s") from error
    refused, result = folder / "refused.json", folder / "result.json"
    if refused.exists():
        why = load(Refused, json.loads(refused.read_text(encoding="utf-8")))
        raised = ConfigError if why.usage else CheckpointError
        raise raised(why.observed, expected=why.expected, where=why.where, next_step=why.next_step)
    if result.exists():
        answers: list[Any] = json.loads(result.read_text(encoding="utf-8"))
        return answers
    said = (folder / f"{program}.log").read_text(encoding="utf-8", errors="replace")
    raise _died(spec, f"Spark ended with {status}: {said[-1000:].strip()}")


def reader(spec: StreamSpec, layout: Layout, *, cores: int = 1) -> StreamSpec:
    """The stream with the settings of a process that reads its state, one partition at a time on each core."""
    memory = max(MEMORY, spec.spark.driver_memory) if layout.in_memory else MEMORY
    small = on_this_host(in_quick_jvm(spec), f"local[{cores}]", memory)
    conf = {**small.spark.conf, **_CONF, _FORMAT: "2" if layout.second_format else "1"}
    return replace(small, spark=replace(small.spark, conf=conf))


def _died(spec: StreamSpec, observed: str) -> ProcessError:
    return ProcessError(
        f"the state could not be read: {observed}",
        expected="a reading process that ends with an answer",
        where=spec.name,
        next_step=f"look at one key or another batch; `streamwarden inspect {spec.name}` finds damaged files",
    )


def _no_key(spec: StreamSpec, chosen: Selection, when: str) -> CheckpointError:
    return CheckpointError(
        f"the state has no row with the key {', '.join(chosen.keys)} {when}",
        expected="a key of the state, each field as `state show` writes it",
        where=spec.name,
        next_step=f"`streamwarden state show {spec.name}` shows keys that there are; --history looks at every batch",
    )
