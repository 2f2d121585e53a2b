"""`look_at_state`: reads the state of a stream, for a person who asked on the stream's page or in the form."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streamwarden.airflow.connections import published
from streamwarden.airflow.dags.controls import asked_by
from streamwarden.airflow.dags.state.forms import FormOperator, form, number, refused_for_good, text
from streamwarden.airflow.notes import write_note
from streamwarden.airflow.workspaces import workspace

_DOC: Final = """\
Shows the state of a stream as it was after a batch, while the stream runs.

The answer is on the tab *State* of the stream's page, for an hour and for those who may change the stream. Neither the
log nor the notes of a run contain a key or a value. Airflow keeps what you type into this form with the run; the page
asks without telling Airflow what. On a shell: `streamwarden state show`.

| colour | meaning |
|---|---|
| green | The answer is there. |
| pink (skipped) | There is no answer: no such key, no such batch. The stream's page says why. |
"""

_LONGEST: Final = timedelta(minutes=70)
"""A reading is given up after an hour."""


def look_dag(project: Path) -> DAG:
    """`look_at_state`: one task."""
    params = {
        "look": text("Look", "The id of a question that the stream's page or the API took; then leave the rest empty"),
        "operator": number("Operator", "Number of the operator; needed if several keep state"),
        "variable": text("Variable", "A state variable of transformWithState, timers, or left or right of a join"),
        "batch": number("Batch", "The state after this batch; empty: the newest that is kept"),
        "since": number("Compare with batch", "An earlier batch, to which the state is compared"),
        "key": Param(
            None,
            type=["null", "string"],
            format="multiline",
            maxLength=2000,
            title="Key",
            description="FIELD=VALUE, or VALUE if the key has one field; several fields on lines of their own. Airflow "
            "keeps it with the run: ask on the stream's page if nobody else may see it",
        ),
        "history": Param(False, type="boolean", title="History", description="The key after each of the last batches"),
    }
    with form("look_at_state", project, _DOC, params, max_active_runs=2) as dag:
        LookOperator(task_id="look", project=str(project), execution_timeout=_LONGEST, doc_md="Reads the state.")
    return dag


class LookOperator(FormOperator):
    """Answers a question about the state of `stream`. What it logs has no key and no value."""

    def execute(self, context: Any) -> None:
        from streamwarden.services.state.looks import answer

        with refused_for_good():
            space = workspace(self.project)
            spec = space.query(context["params"]["stream"])
            looks, asked = _asked(space.data, spec.name, context)
        with published(spec.connections):
            seen = answer(spec, looks, asked)
        write_note(self, context, seen.sentence, whole_run=True)
        self.log.info("look %s: %s", seen.id, seen.sentence)
        if seen.refusal is not None:
            raise AirflowSkipException(seen.sentence)


def _asked(data: Path, stream: str, context: Any) -> Any:
    """The looks of the stream, and the question. Raises ConfigError, AirflowFailException."""
    from streamwarden.services.state.looks import Looks, Wanted

    looks, params = Looks(data, stream), context["params"]
    if not params["look"]:
        keys = tuple(line.strip() for line in (params["key"] or "").splitlines() if line.strip())
        given = {name: params[name] for name in ("operator", "variable", "batch", "since", "history")}
        return looks, looks.ask(asked_by(context), Wanted(keys=keys, **given), time.time())
    found = looks.get(params["look"])
    if found is None:
        raise AirflowFailException(
            f"{stream} has no look {params['look']}, or its time is over; next: ask again on the stream's page"
        )
    return looks, found
