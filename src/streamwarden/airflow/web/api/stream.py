"""`/api/v1` of one stream beyond its row: drivers, checkpoint, advice, declaration. Times are Unix seconds,
sizes bytes. `streamwarden inspect --json` says the same of a checkpoint."""

import time
from typing import Final

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from pydantic import AliasPath, Field

from streamwarden.airflow.web import stream_details
from streamwarden.airflow.web.access import DriverId, LoggedStreamDep, QueryName, StreamDep
from streamwarden.airflow.web.api.fleet import Since
from streamwarden.airflow.web.api.operations import answer, answers, api_router
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.checkpoint.diagnosis import damage
from streamwarden.checkpoint.diagnosis.report import BatchReport, CheckpointReport, OperatorReport, StoreReport
from streamwarden.checkpoint.formats import schemas
from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.config.loading import STREAMS
from streamwarden.lifecycle.driver import DriverRecord, ExitRecord
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lint.finding import Finding
from streamwarden.services.overview.models import Model, Text, attributes, derived
from streamwarden.tuning.recommendation import Number, Recommendation
from streamwarden.units import DAY

router = api_router("streams")

WEEK: Final = 7 * DAY


@derived(ExitRecord)
class DriverExit(Model):
    """Reason why a driver ended."""

    sentence: str


@derived(DriverRecord, without={"stream", "token", "process"})
class Driver(Model):
    """One run of a stream's driver."""

    started_at: float | None
    """when its query ran"""
    host: str | None
    pid: int | None
    folder: str
    """its log and its files, on its host"""
    ui: str | None
    """address of Spark's UI, while the driver lives and serves one"""
    exit: DriverExit | None
    """None: no exit is recorded"""


@derived(stream_details.SeenLog)
class DriverLog(Model):
    """The end of a driver's log, as it is now."""


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


class CheckpointAnswer(Model):
    """The checkpoint of a stream or a query; None if it cannot be read, and why."""

    checkpoint: Checkpoint | None
    problem: Text


@derived(Finding)
class LintFinding(Model):
    """A finding of one rule of the linter."""


@derived(Number)
class AdviceNumber(Model):
    """A number that a recommendation rests on."""


@derived(Recommendation)
class TuningAdvice(Model):
    """A recommendation on one topic."""

    numbers: tuple[AdviceNumber, ...]


class Advice(Model):
    """Lint findings and tuning advice; `problems`: what could not be read for them."""

    findings: tuple[LintFinding, ...]
    recommendations: tuple[TuningAdvice, ...]
    problems: tuple[str, ...]


class Declaration(Model):
    """The YAML file of a stream as it is now, without secrets."""

    path: str
    """below the project"""
    text: str


@router.get("/streams/{stream}/drivers", operation_id="list_drivers", response_model=list[Driver])
def drivers(stream: StreamDep, space: SpaceDep, since: Since = None) -> JSONResponse:
    """The drivers that were launched or ended since a time (seven days ago by default), newest first; the newest one
    however old it is."""
    records, ui = stream_details.drivers(space, stream, time.time() - WEEK if since is None else since)
    return answers([_driver(driver, ui if number == 0 else None) for number, driver in enumerate(records)])


@router.get("/streams/{stream}/drivers/{driver_id}/log", operation_id="get_driver_log", response_model=DriverLog)
def log(stream: LoggedStreamDep, driver_id: DriverId, space: SpaceDep) -> JSONResponse:
    """The end of a driver's log, without secrets. Needs the right to read the task logs of the stream's DAG too."""
    return answer(DriverLog.model_validate(stream_details.end_of(space, stream, driver_id)))


def _driver(record: DriverRecord, ui: str | None) -> Driver:
    ended = record.exit and DriverExit(**attributes(record.exit), sentence=describe(record.exit))
    host, pid = (record.process.host, record.process.pid) if record.process else (None, None)
    return Driver(**attributes(record) | {"exit": ended}, host=host, pid=pid, ui=ui)


@router.get("/streams/{stream}/checkpoint", operation_id="get_checkpoint", response_model=CheckpointAnswer)
def checkpoint(stream: StreamDep, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """The anatomy of the checkpoint of a stream, or of one of its queries. It is read from the storage now."""
    report, problem = stream_details.checkpoint(space, stream, query)
    checkpoint_report = None if report is None else Checkpoint.model_validate(report)
    return answer(CheckpointAnswer(checkpoint=checkpoint_report, problem=problem))


@router.get("/streams/{stream}/advice", operation_id="get_advice", response_model=Advice)
def advice(stream: StreamDep, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """The findings of the linter about a stream, and tuning advice from its history."""
    return answer(Advice.model_validate(stream_details.advice(space, stream, query)))


@router.get("/streams/{stream}/declaration", operation_id="get_declaration", response_model=Declaration)
def declaration(stream: StreamDep, space: SpaceDep) -> JSONResponse:
    """The file that declares the stream."""
    path = f"{STREAMS}/{stream}.yaml"
    text = stream_details.declaration(space, stream)
    if not text:
        raise HTTPException(404, f"the file {path} does not exist, or cannot be read as text")
    return answer(Declaration(path=path, text=text))
