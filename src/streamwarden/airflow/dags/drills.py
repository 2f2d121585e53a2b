"""One DAG per drill, built from `config/drills/*.yaml`. The steps of the drill are its tasks."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, TriggerRule
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from streamwarden.adapters.airflow_server import PREFIX
from streamwarden.airflow.connections import published
from streamwarden.airflow.dags.approvals import DrillApprovalOperator
from streamwarden.airflow.dags.docs import broken_doc, drill_doc
from streamwarden.airflow.dags.timetables import at_its_times
from streamwarden.airflow.links import DrillReportLink, drill_run_id
from streamwarden.airflow.notifying import report_failures
from streamwarden.airflow.projects import START, TAG, built, dag_name, project_of
from streamwarden.airflow.unpausing import is_paused
from streamwarden.airflow.workspaces import workspace
from streamwarden.config.loading import load_drills
from streamwarden.drills.records.journal import FORK_STEPS, DrillRun, DrillStep
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.drills.spec import DRILL_NAME, DrillSpec
from streamwarden.drills.state import RunProgress, StepOutcome, was_declined
from streamwarden.errors import ConfigError
from streamwarden.redaction import redacted_text
from streamwarden.services.workspace import Workspace

SLACK: Final = 600.0
"""Seconds that a step may take beyond its own deadlines before Airflow ends it: Spark's start-up, a loaded machine."""

RETRY: Final[dict[str, Any]] = {"retries": 3, "retry_delay": timedelta(seconds=10)}
"""A step is tried again only if the store was unavailable or another process was still doing the step. A healing is
always tried again."""

HEAL_RETRY: Final[dict[str, Any]] = {"retries": 20, "retry_delay": timedelta(seconds=30)}
"""More than for the other steps: what is not healed stays broken or running, and a broker may be down for minutes."""


class DrillStepOperator(BaseOperator):
    """Runs one step of a drill. The task fails if the step failed and is skipped if the step was skipped.

    The engine decides which steps still make sense after a failure (a late recovery is verified too), so every task
    runs whatever the result of the task before it. A retried step that has finished changes nothing. A healing that did
    not pass is tried again.
    """

    operator_extra_links = (DrillReportLink(),)

    def __init__(self, *, drill: str, project: str, step: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.drill = drill
        self.project = project
        self.step = step

    def execute(self, context: Any) -> None:
        record = RunProgress.of(self.advance(context)).steps.get(DrillStep(self.step))
        message = "no outcome" if record is None else record.message
        self.log.info("%s: %s", self.step, message)
        if record is not None and record.outcome is StepOutcome.SKIPPED:
            raise AirflowSkipException(message)
        if record is None or record.outcome is not StepOutcome.PASSED:
            failed = AirflowException if self.step == DrillStep.HEAL else AirflowFailException
            raise failed(f"{self.step} of drill {self.drill}: {message}")

    def advance(self, context: Any) -> DrillRun:
        """Do the step. Raises StoreError or DrillError if another try may succeed."""
        space = workspace(self.project)
        run_id = drill_run_id(self.drill, context["run_id"])
        self.log.info("drill run %s", run_id)
        with published(_connections(space, self.drill, run_id)):
            engine = space.drill_engine(paused=partial(_is_stream_paused, context.get("ti")))
            if self.step in (DrillStep.PREFLIGHT, DrillStep.STEADY_STATE):
                # One run of a DAG is active at a time: any other that is unhealed was marked as ended.
                for healed in engine.heal_abandoned(self.drill, running=run_id):
                    result = RunProgress.of(healed).steps[DrillStep.HEAL].message
                    self.log.warning("the abandoned run %s was healed: %s", healed.run_id, result)
            try:
                # The first task begins the run; a later one does so only if the first could not.
                engine.begin(self.drill, run_id=run_id)
            except ConfigError as error:
                raise AirflowFailException(str(_config_error(space, self.drill) or error)) from error
            return engine.step(run_id, DrillStep(self.step))


def _is_stream_paused(ti: Any, stream: str) -> bool | None:
    return is_paused(ti, f"{PREFIX}{stream}")


def _connections(space: Workspace, drill: str, run_id: str) -> tuple[str, ...]:
    """The connections of the run's fork, or else of its stream. A file that breaks in the middle of a drill must not
    keep the drill from healing."""
    run = space.store.journals.get(run_id)
    try:
        fork = space.drill_engine().fork(run_id) if run is not None else None
        if fork is not None:
            return fork.spec.connections
        return space.stream(space.drill(drill).stream if run is None else run.stream).connections
    except ConfigError:
        return ()


def _config_error(space: Workspace, drill: str) -> ConfigError | None:
    """The error in the drill's file; None if it is valid."""
    try:
        space.drill(drill)
    except ConfigError as error:
        return error
    return None


class DrillReportOperator(DrillStepOperator):
    """Writes the report. The task fails unless the drill passed, or no person approved it: that is a decision."""

    def execute(self, context: Any) -> None:
        run = self.advance(context)
        self.log.info("drill %s: %s; %s", self.drill, verdict_word(run), run.reason)
        if not run.passed and not was_declined(run):
            raise AirflowFailException(f"drill {self.drill} {verdict_word(run)}: {run.reason}")


def drill_dags(dag_file: str) -> dict[str, DAG]:
    """DAG id -> DAG for every drill of the project. A broken file gives a DAG that only reports the error."""
    project = project_of(dag_file)
    drills, broken = load_drills(project)
    dags = [
        built(partial(drill_dag, spec, project), partial(broken_drill_dag, name, project=project), where=spec.file)
        for name, spec in drills.items()
    ]
    dags += [broken_drill_dag(stem, error, project) for stem, error in broken.items()]
    return {dag.dag_id: dag for dag in dags}


def drill_dag(spec: DrillSpec, project: Path) -> DAG:
    """The steps of `spec`, one task each, in their order."""
    with DAG(
        dag_id=f"drill_{spec.name}",
        description=redacted_text(spec.description) or f"{spec.breaks} of {spec.stream}",
        doc_md=drill_doc(spec),
        # Unpausing a drill must not break anything at once: the first run is the next tick of its schedule.
        schedule=at_its_times(spec.schedule) if spec.schedule else None,
        catchup=False,
        max_active_runs=1,
        tags=sorted({TAG, "drill", *spec.tags}),
        default_args={
            "owner": spec.owner,
            **RETRY,
            "execution_timeout": timedelta(seconds=spec.longest_step + SLACK),
        },
    ) as dag:
        _add_steps(spec.name, project, spec)
    return dag


def _add_steps(drill: str, project: Path, spec: DrillSpec | None = None) -> None:
    """One task each, in their order, to the DAG of this context.

    Args:
        spec: None if the file is broken. Then no approval can be requested: a drill on a live stream stops there.
    """
    previous: BaseOperator | None = None
    for step in FORK_STEPS if spec is None else spec.steps:
        asked = spec if step is DrillStep.APPROVAL else None
        task = _step_task(drill, project, step) if asked is None else _approval_task(asked, project)
        if previous is not None:
            previous >> task
        previous = task


def _approval_task(spec: DrillSpec, project: Path) -> BaseOperator:
    return DrillApprovalOperator(
        task_id=DrillStep.APPROVAL.value, drill=spec, project=str(project), trigger_rule=TriggerRule.ALL_DONE
    )


def _step_task(drill: str, project: Path, step: DrillStep) -> BaseOperator:
    kind = DrillReportOperator if step is DrillStep.REPORT else DrillStepOperator
    options = HEAL_RETRY if step is DrillStep.HEAL else {}
    if step is DrillStep.REPORT:  # it always runs, and fails unless the drill passed
        options = report_failures(project)
    task = kind(
        task_id=step.value,
        drill=drill,
        project=str(project),
        step=step.value,
        trigger_rule=TriggerRule.ALL_DONE,
        **options,
    )
    if step in (DrillStep.HEAL, DrillStep.REPORT):
        # Marking the run as failed or successful skips the waiting tasks, but not a teardown. The report is one too,
        # so that it decides the state of the run: a leaf that was skipped would make the run a success.
        task.as_teardown(on_failure_fail_dagrun=True)
    return task


def broken_drill_dag(stem: str, error: ConfigError, project: Path) -> DAG:
    """A DAG without a schedule whose docs show what is wrong with the file. Its tasks are those of the drill: a run
    that had begun continues with the drill as it was then, and is healed; a new run fails with the error."""
    name = dag_name(stem, DRILL_NAME)
    with DAG(
        dag_id=f"drill_{name}",
        dag_display_name=f"drill_{name} (broken configuration)",
        description=f"The configuration of {name} is broken",
        doc_md=broken_doc(name, error),
        schedule=None,
        start_date=START,
        catchup=False,
        max_active_runs=1,
        tags=sorted({TAG, "drill", "broken-config"}),
        default_args={"owner": "streamwarden", **RETRY},
    ) as dag:
        _add_steps(stem, project)
    return dag
