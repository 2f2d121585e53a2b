"""Gathers a stream's history for tuning: store, checkpoint, and the drills' recovery targets."""

import statistics
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from streamwarden.adapters.storage.files import checkpoint_of, output_of
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.compact_logs import CompactLog, compact_logs
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.changes import RowSizes, plain_bytes, sample_rows
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.checkpoint.formats.state import FileKind, StateFile, StateStore, state_stores
from streamwarden.checkpoint.integrity import snapshot_files
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import StreamwardenError
from streamwarden.health.check import Thresholds
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.lifecycle.queries import owner
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.stream.spec import StreamSpec
from streamwarden.tuning.history import History, StateFiles
from streamwarden.units import DAY

LOOK_BACK: Final = 300
"""Batches of the history that are read."""

_DRIVERS: Final = 30 * DAY
_SAMPLE: Final = 8
"""Versions whose changelogs are sampled, evenly spread: compression and row sizes come from these."""
_ROWS: Final = 250
"""Rows that are read of each of those files."""
_SNAPSHOTS: Final = 5
"""Newest snapshots of an instance whose lists of files are read: RocksDB merges its files at each fourth."""
_STORES: Final = 4
"""Instances of which these are read."""


def gather(
    spec: StreamSpec, store: Store, drills: Iterable[DrillSpec], now: float, thresholds: Thresholds = DEFAULTS
) -> History:
    """The input of the recommendations for `spec`. Unreadable parts are listed as problems. Raises StoreError."""
    window = store.batches.window(spec.name, LOOK_BACK)
    query = window[-1].query_id if window else None
    files: StateFiles | None = None
    logs: tuple[CompactLog, ...] = ()
    problems: tuple[str, ...] = ()
    try:
        checkpoint = checkpoint_of(spec)
        query = read_query_id(checkpoint) or query
        logs = compact_logs(checkpoint, output_of(spec))
        files = state_files(checkpoint)
        if not files.instances:
            files, problems = None, (f"there is no state under {spec.checkpoint}",)
    except (StreamwardenError, OSError) as error:
        problems = (str(error),)
    targets = [
        (drill.recovery.target, f"recovery target of the drill {drill.name}")
        for drill in drills
        if drill.stream == owner(spec.name)
    ]
    accepted = {"acceptable_recovery": min(targets)} if targets else {}
    drivers = tuple(store.drivers.history(owner(spec.name), now - _DRIVERS))
    runs = [driver.run_id for driver in drivers if driver.run_id is not None]
    return History(
        spec=spec,
        conf=spark_conf(spec),
        now=now,
        batches=tuple(batch for batch in window if batch.query_id == query),
        drivers=drivers,
        first_reports=store.batches.first_of_runs(spec.name, runs),
        thresholds=thresholds,
        measurements=store.measurements.recent(spec.name, now - DAY),
        files=files,
        logs=logs,
        problems=problems,
        **accepted,
    )


def state_files(checkpoint: Location) -> StateFiles:
    """Files of the state directory, and the sizes of its rows. Raises CheckpointError, OSError."""
    stores = state_stores(checkpoint)
    by_partition: dict[int, int] = {}
    for store in stores:
        by_partition[store.partition] = by_partition.get(store.partition, 0) + store.bytes
    files = [(store, file) for store in stores for file in store.files]
    versions = sorted({file.version for _, file in files})
    changed, sizes = _changes(checkpoint, files)
    return StateFiles(
        bytes=sum(store.bytes for store in stores),
        by_partition=by_partition,
        instances=len(stores),
        snapshots=tuple(store.snapshots for store in stores),
        oldest=versions[0] if versions else 0,
        newest=versions[-1] if versions else 0,
        rows=sizes.rows,
        keys=sizes.keys,
        values=sizes.values,
        changed=changed,
        snapshot_bytes=_snapshot_bytes(checkpoint, stores[:_STORES]),
    )


def _snapshot_bytes(checkpoint: Location, stores: Sequence[StateStore]) -> dict[int, float]:
    """Version -> mean bytes of the files that its snapshots name. A snapshot that is just being replaced is skipped."""
    sizes_of: dict[int, list[int]] = {}
    for store in stores:
        zips = [file for file in store.files if file.kind is FileKind.ZIP]
        for file in zips[-_SNAPSHOTS:]:
            with suppress(Damaged, FileNotFoundError):
                sizes = snapshot_files(checkpoint / store.folder / file.name)
                sizes_of.setdefault(file.version, []).append(sum(sizes.values()))
    return {version: statistics.fmean(sizes) for version, sizes in sizes_of.items()}


def _changes(
    checkpoint: Location, files: Sequence[tuple[StateStore, StateFile]]
) -> tuple[dict[int, tuple[int, int]], RowSizes]:
    """(version -> stored and plain bytes, sampled rows) of some of the changes. A file that is not an LZ4 stream
    (it has another codec, or is just being replaced) is skipped."""
    changes = [(store, file) for store, file in files if not file.kind.is_snapshot]
    versions = sorted({file.version for _, file in changes})
    step = max(1.0, (len(versions) - 1) / (_SAMPLE - 1))
    chosen = {versions[round(index * step)] for index in range(min(_SAMPLE, len(versions)))}
    changed: dict[int, tuple[int, int]] = {}
    sizes = RowSizes()
    for store, file in changes:
        if file.version not in chosen:
            continue
        where = checkpoint / store.folder / file.name
        try:
            plain = plain_bytes(where)
            sizes += sample_rows(where, _ROWS)
        except (Damaged, FileNotFoundError):
            continue
        stored, before = changed.get(file.version, (0, 0))
        changed[file.version] = (stored + file.size, before + plain)
    return changed, sizes
