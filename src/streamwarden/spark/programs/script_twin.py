"""The twin of a script: each query that the script starts executes the batches of the run's query of that name.

The script runs once, from its beginning to its end. Each call of `start()` executes all batches of the query, one by
one, and returns the last execution, which has ended: a script that waits for its queries continues at once.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import COMMITS, batch_ids, list_or_empty
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.scripts import ForkQuery, OutputKind
from streamwarden.services.twins.plan_replay import Laying, batches_of
from streamwarden.spark.driver.jobs import run_script
from streamwarden.spark.programs.plan import analyzed_plan
from streamwarden.spark.scripts.redirection import ForkedStarts, to_its_end
from streamwarden.stream.spec import ScriptFork, StreamSpec

ONE_BATCH: Final = {"once": True}
"""The one trigger that executes the planned batch and plans no other."""


def await_batch(name: str, query: Any, checkpoint: str, batch: int) -> None:
    """Wait for the end of a query. Raises whatever ended it, RuntimeError if it executed another batch."""
    query.awaitTermination()
    position = log_position(open_path(checkpoint))
    if (position.planned, position.committed) != (batch, batch):
        raise RuntimeError(f"{name} ended at planned {position.planned}, committed {position.committed}: not {batch}")


@dataclass
class ScriptTwin:
    """Executes the batches of one run of a script.

    Args:
        run: the root of its checkpoints.
        places: of the twin.
    """

    spec: StreamSpec
    script: ScriptFork
    run: Location
    places: Places
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    batch: int | None = None
    _ended: dict[str, Any] = field(default_factory=dict)

    def execute(self) -> None:
        """Run the script to its end. Raises whatever it raises; `batch` is the one that was executed then."""
        script = replace(self.script, batches=None)
        ForkedStarts(self.spec, script, begin=self._begin).watch()
        run_script(Path(self.spec.job), self.spec.args)

    @property
    def records(self) -> int:
        """Input records of all executed batches."""
        return sum(query["records"] for query in self.done.values())

    def text(self) -> str:
        """Of each query its records and its logical plan, as JSON."""
        return json.dumps(self.done)

    def _begin(self, writer: Any, query: ForkQuery, start: Callable[[], Any]) -> Any:
        if query.name in self._ended:  # the script starts it again: all of its batches are executed
            return self._ended[query.name]
        run = self.run / query.name
        if query.kind is OutputKind.NOTHING or not batch_ids(list_or_empty(run / COMMITS)):
            return to_its_end(writer, query, start)  # there is nothing to compare
        laying = Laying(run, None, replace(self.places, checkpoint=query.checkpoint))
        records, execution = 0, None
        for self.batch in batches_of(run, None):
            laying.lay(self.batch)
            writer.trigger(**ONE_BATCH)
            execution = start()
            await_batch(f"the query {query.name}", execution, query.checkpoint, self.batch)
            reports = execution.recentProgress
            records += sum(report["numInputRows"] for report in reports if report["batchId"] == self.batch)
        self._ended[query.name] = execution
        self.done[query.name] = {"records": records, "plan": analyzed_plan(writer)}
        return execution
