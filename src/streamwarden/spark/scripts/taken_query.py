"""Takes the one query of a script before it starts, for a program that starts it itself, as often as it wants."""

from pathlib import Path
from typing import Any

from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.errors import JobError
from streamwarden.spark.driver.jobs import run_script
from streamwarden.spark.internals.readers_writers import clear_layout
from streamwarden.spark.scripts.batch_writes import BatchWrites
from streamwarden.spark.scripts.fork_reads import watch_reads
from streamwarden.spark.scripts.query_starts import QueryStart, watch_starts
from streamwarden.stream.spec import StreamSpec


class Taken(BaseException):
    """Ends a script at its first start of a query. No `except Exception` of the script stops it."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer


class TakenQuery:
    """The query of the script `spec.job`, whose rows go into the sink of `spec`, a folder of Parquet files.

    Args:
        batches: about how many batches its input is cut into.
    """

    def __init__(self, spec: StreamSpec, batches: int) -> None:
        self._spec = spec
        self._batches = batches
        self._taking = False

    def watch(self) -> None:
        """From now on, keep the script's writes within the fork, and its queries from starting."""
        watch_reads(self._batches)
        BatchWrites(self._spec).watch()
        watch_starts(self._examine)

    def writer(self) -> Any:
        """Run the script up to its first query, and return the query's writer. Raises what the script raises."""
        self._taking = True
        try:
            run_script(Path(self._spec.job), self._spec.args)
        except Taken as taken:
            return taken.writer
        finally:
            self._taking = False
        raise self._refusal("started no query", "a script that starts one query")

    def _examine(self, start: QueryStart) -> None:
        if not self._taking:
            return
        start.settle()
        mode = start.written("outputMode")
        if mode != "Append":
            raise self._refusal(f"starts a query in the output mode {mode}", "append, the only mode of a sink of files")
        clear_layout(start.writer)
        raise Taken(start.writer.format("parquet").option("path", to_hadoop(str(self._spec.sink.path))))

    def _refusal(self, observed: str, expected: str) -> JobError:
        next_step = "drill this script with `kill_driver` and `moment: after_handover`"
        return JobError(f"the script {observed}", expected=expected, where=self._spec.job, next_step=next_step)
