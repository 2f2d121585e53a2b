"""`/api/v1` of one stream beyond its row: drivers, checkpoint, advice, declaration. Times are Unix seconds."""

from __future__ import annotations

import time
from typing import Final

from fastapi import APIRouter, HTTPException
from fastapi.responses import JSONResponse

from streamwarden.adapters.store.history.rollup_hours import HOUR
from streamwarden.airflow.web import stream_details
from streamwarden.airflow.web.access import DriverId, LoggedStreamDep, QueryName, StreamDep
from streamwarden.airflow.web.api import Since, answer, answers
from streamwarden.airflow.web.checkpoint_models import Checkpoint, CheckpointAnswer
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.config.loading import STREAMS
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.services.overview.rows import Model
from streamwarden.tuning.recommendation import Decision, Recommendation

router = APIRouter(prefix="/api/v1")

WEEK: Final = 7 * 24 * HOUR


class DriverExit(Model):
    """Why a driver ended."""

    kind: ExitKind
    ended_at: float
    sentence: str
    exit_code: int | None
    signal: int | None
    error_class: str | None
    message: str
    curable: bool
    """whether a restart may help"""
    cut_batch: bool | None
    """whether it left a planned batch uncommitted; None: not known"""
    committed: bool | None
    """whether it committed a batch in its life; None: not known"""
    next_step: str
    cause: str | None
    """code of the row of the table of causes that fitted"""
    on_request: bool
    """a stop had been requested when it was killed"""


class Driver(Model):
    """One run of a stream's driver."""

    driver_id: str
    launched_at: float
    launched_by: str
    started_at: float | None
    """when its query ran"""
    host: str | None
    pid: int | None
    folder: str
    """its log and its files, on its host"""
    checkpoint: str
    query_id: str | None
    run_id: str | None
    ui: str | None
    """address of Spark's UI, while the driver lives and serves one"""
    exit: DriverExit | None
    """None: no exit is recorded"""


class DriverLog(Model):
    """The end of a driver's log, as it is now."""

    folder: str
    """where the whole log is, on the driver's host"""
    lines: tuple[str, ...]
    problem: str
    """why it cannot be read"""


class LintFinding(Model):
    """What one rule of the linter reports."""

    rule: str
    title: str
    severity: Severity
    stream: str
    observed: str
    origin: FactOrigin
    where: str
    reason: str
    remedy: str


class AdviceNumber(Model):
    """A number that a recommendation rests on."""

    name: str
    value: float
    unit: str
    source: str
    """where it was measured, or how"""


class TuningAdvice(Model):
    """A recommendation on one topic."""

    topic: str
    status: Decision
    says: str
    numbers: tuple[AdviceNumber, ...]
    settings: dict[str, str]
    """setting -> value to set"""


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


@router.get("/streams/{stream}/drivers", response_model=list[Driver])
def drivers(stream: StreamDep, space: SpaceDep, since: Since = None) -> JSONResponse:
    """The drivers that were launched or ended since a time (seven days ago by default), newest first; the newest one
    however old it is."""
    found, ui = stream_details.drivers(space, stream, time.time() - WEEK if since is None else since)
    return answers([_driver(each, ui if number == 0 else None) for number, each in enumerate(found)])


@router.get("/streams/{stream}/drivers/{driver_id}/log", response_model=DriverLog)
def log(stream: LoggedStreamDep, driver_id: DriverId, space: SpaceDep) -> JSONResponse:
    """The end of a driver's log, without secrets. Needs the right to read the task logs of the stream's DAG too."""
    found = stream_details.end_of(space, stream, driver_id)
    return answer(DriverLog(folder=found.folder, lines=tuple(found.lines), problem=found.problem))


def _driver(record: DriverRecord, ui: str | None) -> Driver:
    return Driver(
        driver_id=record.driver_id,
        launched_at=record.launched_at,
        launched_by=record.launched_by,
        started_at=record.started_at,
        host=record.process.host if record.process else None,
        pid=record.process.pid if record.process else None,
        folder=record.folder,
        checkpoint=record.checkpoint,
        query_id=record.query_id,
        run_id=record.run_id,
        ui=ui,
        exit=_exit(record.exit) if record.exit else None,
    )


def _exit(record: ExitRecord) -> DriverExit:
    own = {name: getattr(record, name) for name in DriverExit.model_fields if name != "sentence"}
    return DriverExit(sentence=describe(record), **own)


@router.get("/streams/{stream}/checkpoint", response_model=CheckpointAnswer)
def checkpoint(stream: StreamDep, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """The anatomy of the checkpoint of a stream, or of one of its queries. It is read from the storage now."""
    report, problem = stream_details.checkpoint(space, stream, query)
    found = None if report is None else Checkpoint.model_validate(report.to_dict())
    return answer(CheckpointAnswer(checkpoint=found, problem=problem))


@router.get("/streams/{stream}/advice", response_model=Advice)
def advice(stream: StreamDep, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """The findings of the linter about a stream, and tuning advice from its history."""
    found = stream_details.advice(space, stream, query)
    return answer(
        Advice(
            findings=tuple(map(_finding, found.findings)),
            recommendations=tuple(map(_recommendation, found.recommendations)),
            problems=found.problems,
        )
    )


def _finding(each: Finding) -> LintFinding:
    return LintFinding(**{name: getattr(each, name) for name in LintFinding.model_fields})


def _recommendation(each: Recommendation) -> TuningAdvice:
    return TuningAdvice(
        topic=each.topic,
        status=each.status,
        says=each.says,
        numbers=tuple(
            AdviceNumber(name=one.name, value=one.value, unit=one.unit, source=one.source) for one in each.numbers
        ),
        settings=dict(each.settings),
    )


@router.get("/streams/{stream}/declaration", response_model=Declaration)
def declaration(stream: StreamDep, space: SpaceDep) -> JSONResponse:
    """The file that declares the stream."""
    path = f"{STREAMS}/{stream}.yaml"
    text = stream_details.declaration(space, stream)
    if not text:
        raise HTTPException(404, f"the file {path} does not exist, or cannot be read as text")
    return answer(Declaration(path=path, text=text))
