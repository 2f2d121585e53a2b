"""Spark's plans, as objects of the JVM.

Needs Catalyst's `EliminateSubqueryAliases`, `CollapseProject` and logical nodes, the session's SQL parser, and the
streaming relations.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streamwarden.lifecycle.script_queries import NamedInput


def analyzed(frame: DataFrame) -> Any:
    """The analyzed logical plan of a frame."""
    return frame._jdf.queryExecution().analyzed()


def without_aliases(frame: DataFrame) -> Any:
    """The analyzed plan without aliases of its parts."""
    package = _jvm(frame.sparkSession).org.apache.spark.sql.catalyst.analysis
    return package.EliminateSubqueryAliases.apply(analyzed(frame))


def is_deterministic(filtered: DataFrame) -> bool:
    """Whether the condition by which the frame was filtered last has the same answer for the same row each time."""
    return bool(analyzed(filtered).condition().deterministic())


def merged_projections(session: SparkSession, plan: Any) -> Any:
    """The plan with each projection merged into the projection or aggregation below it."""
    return _jvm(session).org.apache.spark.sql.catalyst.optimizer.CollapseProject.apply(plan, True)


def logical_nodes(session: SparkSession) -> Any:
    """The package of the classes of logical plans."""
    return _jvm(session).org.apache.spark.sql.catalyst.plans.logical


def scala_seq(session: SparkSession, values: Sequence[Any]) -> Any:
    """A Scala sequence."""
    return _jvm(session).PythonUtils.toSeq(list(values))


def kind(node: Any) -> str:
    """The name of the node's class."""
    return str(node.getClass().getSimpleName()).rstrip("$")


def statement_kinds(session: SparkSession, text: str) -> list[str]:
    """The names of the parsed plan of a SQL statement and of what is below it: an INSERT may be below a WITH.

    Raises ParseException.
    """
    return list(_kinds(session._jsparkSession.sessionState().sqlParser().parsePlan(text)))


def _jvm(session: SparkSession) -> Any:
    return session._jvm


def _kinds(plan: Any) -> Iterator[str]:
    yield kind(plan)
    for child in _iterated(plan.children()):
        yield from _kinds(child)


def streaming_inputs(frame: DataFrame) -> tuple[NamedInput, ...]:
    """The streaming sources of a frame: of files the folder, of a broker the topic."""
    return tuple(_input(leaf) for leaf in _iterated(analyzed(frame).collectLeaves()) if leaf.isStreaming())


def static_leaves(plan: Any) -> list[Any]:
    """The relations of a streaming query's plan that are no streams, also those of its subqueries."""
    plans = [plan, *_iterated(plan.subqueriesAll())]
    return [leaf for part in plans for leaf in _iterated(part.collectLeaves()) if not leaf.isStreaming()]


def folders_of(leaf: Any) -> list[Any] | None:
    """The paths (Hadoop's) that a relation of files reads; None: it does not read files."""
    if kind(leaf) != "LogicalRelation" or kind(leaf.relation()) != "HadoopFsRelation":
        return None
    return list(_iterated(leaf.relation().location().rootPaths()))


def newest_change(session: SparkSession, path: Any) -> tuple[int, str]:
    """When a path, or anything below it, was changed last, Unix milliseconds, and its name. Removing a file changes its
    folder."""
    files = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    return _newest(files, files.getFileStatus(path))


def _newest(files: Any, status: Any) -> tuple[int, str]:
    own = int(status.getModificationTime()), str(status.getPath())
    below = files.listStatus(status.getPath()) if status.isDirectory() else []
    return max([own, *(_newest(files, found) for found in below)])


def _input(relation: Any) -> NamedInput:
    """The input of a streaming relation. A kind of relation that names no format is the format itself."""
    match kind(relation):
        case "StreamingRelation":
            source = relation.dataSource()
            path = source.options().get("path")
            place = str(path.get()) if path.isDefined() else None
            options = {str(pair._1()): str(pair._2()) for pair in _iterated(source.options())}
            return NamedInput(format=str(source.className()), path=place, options=options, schema=_schema(relation))
        case "StreamingRelationV2":
            given = relation.extraOptions()
            options = {str(name): str(value) for name, value in given.asCaseSensitiveMap().items()}
            name, topic = str(relation.sourceName()), given.get("subscribe")
            return NamedInput(format=name, topic=topic, options=options, schema=_schema(relation))
        case other:
            return NamedInput(format=other)


def _schema(relation: Any) -> str:
    return str(relation.schema().catalogString())


def _iterated(seq: Any) -> Iterator[Any]:
    iterator = seq.iterator()
    while iterator.hasNext():
        yield iterator.next()
