"""Looks at state that somebody asked for and that a run of a DAG carries out: question and answer are one document.

State is data, so a look is private, bounded, and kept for an hour: in a file of its owner alone below `looks` of the
data folder, and nowhere else. Its id says nothing of what was asked: only the id is passed to Airflow, which keeps the
configuration of a run for months and shows it to others.
"""

import json
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from streamwarden.config.schema import load
from streamwarden.disk import PRIVATE, private_folder
from streamwarden.disk import replace as write
from streamwarden.errors import ConfigError, StreamwardenError
from streamwarden.lifecycle.time_travel.answers import Difference, History, Refused, Shown
from streamwarden.lifecycle.time_travel.bounds import bounded, cut
from streamwarden.lifecycle.time_travel.tables import StateTable
from streamwarden.services.state import looking
from streamwarden.services.state.looking import Look, Selection
from streamwarden.stream.spec import StreamSpec

FOLDER: Final = "looks"
"""Of the data folder."""
KEEP: Final = 3600.0
"""Seconds for which a look is kept after it was asked for, or answered."""
MOST: Final = 10
"""Looks of a stream; a further one replaces the oldest."""
ROWS: Final = 50
"""Rows, and keys of a sample, that an answer has at most."""
BATCHES: Final = 20
"""Batches of a history: each is one reading of the state."""

ID: Final = re.compile(r"[0-9]{8}T[0-9]{12}Z-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person wants to see of a state.

    Args:
        operator: number of the operator; None: the only one.
        variable: a state variable, `timers`, or the side of a join; None: the only table.
        keys: each as FIELD=VALUE, or VALUE if the key has one field; empty: all keys.
        batch: the state after it; None: the newest that is kept.
        since: an earlier batch, to which the state is compared; None: it is only shown.
        history: the keys after each of the newest batches, in place of one state.
    """

    operator: int | None = None
    variable: str | None = None
    keys: tuple[str, ...] = ()
    batch: int | None = None
    since: int | None = None
    history: bool = False

    def __post_init__(self) -> None:
        if self.history and (not self.keys or self.batch is not None or self.since is not None):
            raise ConfigError(
                "a history shows one key after each batch",
                expected="a key, and neither a batch nor an earlier one",
                where="the question",
                next_step="name a key, or leave the history out",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A look, and its answer when there is one: `shown`, `history`, `difference` or `refusal`.

    Args:
        by: who asked.
        asked_at: Unix seconds.
        answered_at: Unix seconds; None: not yet.
        batches: at which the state was looked at, ascending.
        committed_at: of the last of them, Unix seconds; None: unknown.
        refusal: why there is no answer.
    """

    id: str
    stream: str
    by: str
    asked_at: float
    wanted: Wanted
    answered_at: float | None = None
    table: StateTable | None = None
    batches: tuple[int, ...] = ()
    committed_at: float | None = None
    shown: Shown | None = None
    history: History | None = None
    difference: Difference | None = None
    refusal: Refused | None = None

    @property
    def sentence(self) -> str:
        """What was answered, without a word of the state itself."""
        if self.refusal is not None:
            return "there is no answer; the stream's page says why"
        last = self.batches[-1] if self.batches else None
        if self.shown is not None:
            return f"{len(self.shown.entries):,} of {self.shown.rows:,} rows after batch {last}"
        if self.difference is not None:
            found = self.difference
            return (
                f"batches {self.batches[0]} and {last}: {found.appeared:,} keys appeared, {found.vanished:,} vanished, "
                f"{found.changed:,} changed"
            )
        return f"a history of {len(self.batches)} batches" if self.history is not None else "it is not answered yet"


@dataclass(frozen=True, slots=True)
class Looks:
    """The looks of one stream or query.

    Args:
        data: the data folder.
        stream: a stream, or STREAM/QUERY.
    """

    data: Path
    stream: str

    def ask(self, by: str, wanted: Wanted, now: float) -> Seen:
        """Keep a question for the DAG. Raises OSError."""
        private_folder(self._folder, below=self.data)
        moment = datetime.fromtimestamp(now, UTC)
        asked = Seen(
            id=f"{moment:%Y%m%dT%H%M%S%fZ}-{secrets.token_hex(4)}",
            stream=self.stream,
            by=by,
            asked_at=now,
            wanted=wanted,
        )
        self.put(asked)
        for file in [*self._files()][MOST:]:
            file.unlink(missing_ok=True)
        return asked

    def put(self, look: Seen) -> None:
        """Write the document. Raises OSError."""
        write(
            self._folder / f"{look.id}.json", json.dumps(asdict(look), ensure_ascii=False), mode=PRIVATE, durable=False
        )

    def get(self, look_id: str) -> Seen | None:
        """The look of this id; None: there is none, or its time is over. Raises OSError."""
        return _read(self._folder / f"{look_id}.json") if ID.fullmatch(look_id) else None

    def newest(self) -> list[Seen]:
        """All that are kept, newest first. Raises OSError."""
        return [look for look in map(_read, self._files()) if look is not None]

    def _files(self) -> Iterator[Path]:
        return iter(sorted(self._folder.glob("*.json"), reverse=True))

    @property
    def _folder(self) -> Path:
        return self.data / FOLDER / self.stream


def answer(spec: StreamSpec, looks: Looks, asked: Seen, *, now: Callable[[], float] = time.time) -> Seen:
    """Look at the state, and keep what was seen, or why there is nothing to see. Raises OSError."""
    try:
        done = _answered(asked, _look(spec, asked.wanted))
    except StreamwardenError as error:
        texts = (cut(text) for text in (error.observed, error.expected, error.where, error.next_step))
        observed, expected, where, next_step = texts
        usage = isinstance(error, ConfigError)
        refusal = Refused(observed=observed, expected=expected, where=where, next_step=next_step, usage=usage)
        done = replace(asked, refusal=refusal)
    done = replace(done, answered_at=now())
    looks.put(done)
    return done


def _look(spec: StreamSpec, wanted: Wanted) -> Look[Shown] | Look[History] | Look[Difference]:
    chosen = Selection(operator=wanted.operator, variable=wanted.variable, keys=wanted.keys)
    if wanted.history:
        return looking.history(spec, chosen, last=BATCHES)
    if wanted.since is not None:
        return looking.diff(spec, chosen, before=wanted.since, after=wanted.batch, rows=ROWS)
    return looking.show(spec, chosen, batch=wanted.batch, rows=ROWS)


def _answered(asked: Seen, look: Look[Shown] | Look[History] | Look[Difference]) -> Seen:
    found = look.answer
    return replace(
        asked,
        table=look.table,
        batches=look.batches,
        committed_at=look.committed_at,
        shown=bounded(found) if isinstance(found, Shown) else None,
        history=bounded(found) if isinstance(found, History) else None,
        difference=bounded(found) if isinstance(found, Difference) else None,
    )


def _read(file: Path) -> Seen | None:
    """The document; None if it is not there, its time is over, or another version wrote it."""
    try:
        if _is_over(file, time.time()):
            return None
        return load(Seen, json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return None


def remove_expired(data: Path, now: float) -> int:
    """Remove the looks of all streams whose time is over; returns how many. Raises OSError."""
    root = data / FOLDER
    gone = [file for file in root.rglob("*") if file.is_file() and _is_over(file, now)]
    for file in gone:
        file.unlink(missing_ok=True)
    for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
    return len(gone)


def _is_over(file: Path, now: float) -> bool:
    return file.stat().st_mtime < now - KEEP
