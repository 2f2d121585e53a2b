"""The anatomy of a checkpoint in `/api/v1`, with the fields of `streamwarden inspect --json`. Sizes are bytes."""

from __future__ import annotations

from streamwarden.checkpoint.diagnosis.damage import Consequence
from streamwarden.services.overview.rows import Model, Text


class CheckpointBatch(Model):
    """One batch of the logs."""

    batch: int
    planned_at: float | None
    committed_at: float | None
    watermark_ms: int | None
    """Unix milliseconds"""
    sources: tuple[Text, ...]
    """up to where the batch read each source"""


class Replay(Model):
    """What a restart replays of one store."""

    last_snapshot: int | None
    newest_version: int
    versions_since: int
    changelog_bytes_since: int


class StorePartition(Model):
    """One store of one partition."""

    operator: int
    partition: int
    store: str
    bytes: int
    snapshots: tuple[int, ...]
    changelogs: tuple[int, ...]
    replay: Replay


class ColumnFamily(Model):
    """What a store keeps: fields as `name type`."""

    name: str
    key: tuple[str, ...]
    value: tuple[str, ...]
    kind: str | None


class StateSchema(Model):
    """The schema of one store."""

    store: str
    path: str
    version: int
    families: tuple[ColumnFamily, ...]


class CheckpointOperator(Model):
    """One stateful operator; Spark numbers them from the sink towards the sources."""

    operator: int
    name: str | None
    inferred: bool
    """whether the name was inferred from the schema"""
    partitions: int
    stores: tuple[str, ...]
    bytes: int
    bytes_by_partition: dict[int, int]
    schemas: tuple[StateSchema, ...]


class Damage(Model):
    """One file that is missing or damaged."""

    path: str
    what: Text
    consequence: Consequence
    spark: str
    """what Spark does about it"""
    next_step: Text
    error_class: str | None


class Checkpoint(Model):
    """What a checkpoint says of its query. Times are Unix seconds unless they end with `_ms`."""

    path: str
    output: str | None
    query_id: str | None
    planned: int | None
    planned_at: float | None
    committed: int | None
    committed_at: float | None
    gap: int
    """planned batches that are not committed"""
    retained_batches: tuple[int, int] | None
    watermark_ms: int | None
    provider: str | None
    shuffle_partitions: int | None
    batches: tuple[CheckpointBatch, ...]
    state_bytes: int
    operators: tuple[CheckpointOperator, ...]
    stores: tuple[StorePartition, ...]
    formats: dict[str, str]
    sink_newest: int | None
    """newest batch in the sink's manifest"""
    conf: dict[str, Text]
    """settings that the checkpoint has fixed"""
    worst: Consequence | None
    """of all findings; None: nothing is wrong"""
    findings: tuple[Damage, ...]


class CheckpointAnswer(Model):
    """The checkpoint of a stream or a query; None if it cannot be read, and why."""

    checkpoint: Checkpoint | None
    problem: Text
