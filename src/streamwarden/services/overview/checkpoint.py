"""The anatomy of a checkpoint as JSON: the API and `streamwarden inspect --json` say the same. Sizes are bytes."""

from pydantic import AliasPath, Field

from streamwarden.checkpoint.diagnosis import damage
from streamwarden.checkpoint.diagnosis.report import BatchReport, CheckpointReport, OperatorReport, StoreReport
from streamwarden.checkpoint.formats import schemas
from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.services.overview.models import Model, derived


@derived(BatchReport)
class CheckpointBatch(Model):
    """One batch of the logs. `watermark_ms` is in Unix milliseconds."""


class Replay(Model):
    """The changelogs a restart replays."""

    last_snapshot: int | None = Field(validation_alias="snapshot")
    newest_version: int = Field(validation_alias="newest")
    versions_since: int = Field(validation_alias="versions")
    changelog_bytes_since: int = Field(validation_alias="changelog_bytes")


@derived(StoreReport)
class StorePartition(Model):
    """One store of one partition."""

    replay: Replay


@derived(schemas.ColumnFamily)
class ColumnFamily(Model):
    """A store's contents."""


@derived(schemas.StateSchema)
class StateSchema(Model):
    """The schema of one store."""

    families: tuple[ColumnFamily, ...]


@derived(OperatorReport)
class CheckpointOperator(Model):
    """One stateful operator."""

    schemas: tuple[StateSchema, ...]


@derived(damage.Damage)
class Damage(Model):
    """One file that is missing or damaged."""


@derived(CheckpointReport, without={"position", "retained"})
@derived(LogPosition, at="position")
class Checkpoint(Model):
    """The report on a checkpoint. Times are Unix seconds unless they end with `_ms`."""

    gap: int = Field(validation_alias=AliasPath("position", "gap"))
    """planned batches that are not committed"""
    retained_batches: tuple[int, int] | None = Field(validation_alias="retained")
    state_bytes: int
    batches: tuple[CheckpointBatch, ...]
    operators: tuple[CheckpointOperator, ...]
    stores: tuple[StorePartition, ...]
    worst: damage.Consequence | None
    """of all findings; None: nothing is wrong"""
    findings: tuple[Damage, ...]
