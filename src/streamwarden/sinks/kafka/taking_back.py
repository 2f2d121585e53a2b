"""What a restore took back of a topic. Its records stay there, so a file lists them for readers: which records they
have to drop.

The file is `CHECKPOINT.drop-event-ids-STAMP.jsonl`. Its first line is the cut: the records of `query` of batches after
`after` at offsets below `before` of each partition. Each further line is one of these records: `partition`, `offset`,
`batch`, `event_id`. The batches that get these numbers are written at later offsets. A row that comes out as before has
the same event id then, so a reader drops records by their place, or forgets the listed ids when it has dropped them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from streamwarden import disk
from streamwarden.lifecycle.location import plain_path
from streamwarden.verification.comparing.events import Event

LIST: Final = ".drop-event-ids-"
"""Between the checkpoint's path and the stamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Records that a restore took back. `before`: partition -> offset behind the last one that it may take back."""

    query: str
    after: int
    before: Mapping[int, int]

    @classmethod
    def parse(cls, line: str) -> Self:
        """Raises ValueError, KeyError."""
        document = json.loads(line)
        before = {int(partition): int(offset) for partition, offset in document["before"].items()}
        return cls(query=str(document["query"]), after=int(document["after"]), before=before)

    def takes_back(self, event: Event) -> bool:
        """Whether it took this record back."""
        later = event.query == self.query and event.batch is not None and event.batch > self.after
        return later and event.offset < self.before.get(event.partition, 0)

    @property
    def condition(self) -> str:
        """The same for Spark, over the columns `by` (query and batch), `partition` and `offset`."""
        places = (f"(partition = {partition} AND offset < {end})" for partition, end in self.before.items())
        batch = "CAST(substring_index(by, '/', -1) AS BIGINT)"
        return f"by LIKE '{self.query}/%' AND {batch} > {self.after} AND ({' OR '.join(places) or 'false'})"


def list_of(checkpoint: str, stamp: str) -> Path:
    """The file of a restore."""
    return Path(f"{plain_path(checkpoint)}{LIST}{stamp}.jsonl")


def cuts_of(checkpoint: str) -> tuple[Cut, ...]:
    """The cuts of all restores of a checkpoint. Raises OSError, ValueError."""
    path = Path(plain_path(checkpoint))
    cuts = []
    for file in sorted(path.parent.glob(f"{path.name}{LIST}*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            cuts.append(Cut.parse(next(lines)))
    return tuple(cuts)


def write_list(file: Path, cut: Cut, events: Iterable[Event]) -> int:
    """Write the list of these records; returns how many there are. Raises OSError."""
    count = 0
    with disk.replacing(file) as target:
        target.write(f"{json.dumps(asdict(cut))}\n".encode())
        for event in events:
            record = {"partition": event.partition, "offset": event.offset, "batch": event.batch, "event_id": event.id}
            target.write(f"{json.dumps(record)}\n".encode())
            count += 1
    return count
