"""Keeps a script's writes outside its queries within the fork.

A script may write with batch frames: from a function that it passes to `foreachBatch`, or before its queries start. In
a fork, a function that runs writes files into the fork's folder instead, under the path that it names. Everything else
is refused before Spark writes anything.
"""

import inspect
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark import RDD
from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2

from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.errors import JobError
from streamwarden.lifecycle.location import URL, plain_path
from streamwarden.lint.named_places import BY_FORMAT
from streamwarden.sinks import KINDS
from streamwarden.spark.internals.hooks import around
from streamwarden.spark.internals.plans import statement_kinds
from streamwarden.spark.internals.readers_writers import format_of, options_of
from streamwarden.stream.spec import StreamSpec

_TO_A_PATH: Final = ("save", *BY_FORMAT)
_TO_A_TABLE: Final = ("insertInto", "saveAsTable", "jdbc")
_TO_A_TABLE_V2: Final = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
_OF_RDD: Final = (
    "saveAsTextFile",
    "saveAsPickleFile",
    "saveAsHadoopFile",
    "saveAsHadoopDataset",
    "saveAsNewAPIHadoopFile",
    "saveAsNewAPIHadoopDataset",
    "saveAsSequenceFile",
)
_OF_CATALOG: Final = ("createTable", "createExternalTable")

_FILES: Final = frozenset(
    {"xml", "avro", "delta", *(name for kind in KINDS.values() if kind.PLACE == "path" for name in kind.FORMATS)}
)
"""Formats whose path is the only place that they write to."""

_CHANGES: Final = re.compile(
    r"(Insert|Overwrite|Merge|Delete|Update|Replace|Truncate|Load|Drop|Alter|AddColumns|AddPartitions|Rename|Recover"
    r"|Repair|SetTable|SetNamespace|CreateTable|CreateNamespace|CreateView|CreateFunction|ExecuteImmediate"
    r"|CompoundBody).*"
)
"""Names of the parsed plans of SQL statements that change what is stored, or may run others that do."""

_OF_THE_SESSION: Final = frozenset({"CreateViewCommand", "CreateFunctionCommand", "DropVariable"})
"""Names of plans that change a temporary view, a temporary function or a variable."""


class BatchWrites:
    """Watches the batch writes of this process. Only one fork runs in it."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec
        self._here = threading.local()

    @contextmanager
    def ours(self) -> Iterator[None]:
        """Within it, this thread's writes are Streamwarden's own."""
        with self._set("ours", True):
            yield

    @contextmanager
    def redirected(self, folder: Path) -> Iterator[None]:
        """Files that this thread writes meanwhile go below `folder`, under the path that they are written to."""
        with self._set("folder", folder):
            yield

    @contextmanager
    def _set(self, name: str, value: object) -> Iterator[None]:
        before = getattr(self._here, name, None)
        setattr(self._here, name, value)
        try:
            yield
        finally:
            setattr(self._here, name, before)

    def watch(self) -> None:
        """From now on, redirect or refuse each batch write of this process."""
        for name in _TO_A_PATH:
            around(DataFrameWriter, name, self._redirect)
        for owner, names in (
            (DataFrameWriter, _TO_A_TABLE),
            (DataFrameWriterV2, _TO_A_TABLE_V2),
            (RDD, _OF_RDD),
            (Catalog, _OF_CATALOG),
        ):
            for name in names:
                around(owner, name, self._refuse)
        around(SparkSession, "sql", self._run_sql)

    def _redirect(self, method: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        if getattr(self._here, "ours", False):
            return method(writer, *args, **options)
        call = inspect.signature(method).bind(writer, *args, **options)
        given, name = call.arguments, method.__name__
        format = str(given.get("format") or format_of(writer)) if name == "save" else name
        if format == "noop":
            return method(writer, *args, **options)
        path = given.get("path") or options_of(writer).get("path")
        folder = getattr(self._here, "folder", None)
        if folder is None or path is None or format.lower() not in _FILES:
            raise self._refusal(f"writes {format}" + (f" to {path}" if path else ""))
        given["path"] = to_hadoop(str(place_of(folder, path)))
        return method(*call.args, **call.kwargs)

    def _refuse(self, method: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        shown = next((f" {argument}" for argument in args if isinstance(argument, str)), "")
        raise self._refusal(f"calls {method.__name__}{shown}")

    def _run_sql(self, run: Callable[..., Any], session: Any, *args: Any, **options: Any) -> Any:
        text = inspect.signature(run).bind(session, *args, **options).arguments["sqlQuery"]
        self._require_reading(session, text)
        return run(session, *args, **options)

    def _require_reading(self, session: Any, text: str) -> None:
        try:
            kinds = statement_kinds(session, text)
        except ParseException:
            return  # running it raises the same
        if any(map(changes_storage, kinds)):
            raise self._refusal(f"runs the SQL statement {' '.join(text.split())[:80]!r}")

    def _refusal(self, what: str) -> JobError:
        return JobError(
            f"the script {what}: a fork lets a script write nowhere but in its queries, and in files of a function "
            "that it passes to foreachBatch (`fork.foreach_batch: run`)",
            expected="a script whose queries write all of its output",
            where=self._spec.job,
            next_step="write this in a separate script, which runs before the stream; or drill with "
            "`fork.foreach_batch: capture`, which does not call the function",
        )


def changes_storage(plan: str) -> bool:
    """Whether a SQL statement whose parsed plan has this name changes what is stored."""
    return _CHANGES.fullmatch(plan) is not None and plan not in _OF_THE_SESSION


def place_of(folder: Path, path: str) -> Path:
    """Path below `folder` of a file that is written to `path`: the same path, without parts that lead outside."""
    plain = plain_path(path)
    rest = plain.partition(":")[2] if URL.match(plain) else plain
    return folder.joinpath(*[part for part in rest.split("/") if part not in ("", ".", "..")])
