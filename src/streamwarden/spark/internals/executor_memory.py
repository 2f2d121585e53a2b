"""The memory that each executor reports while it works, as it is now.

Spark's REST API and its metrics for Prometheus have peaks alone, which are never taken back. The heartbeats that they
are made of say what an executor holds at that moment, as long as it runs a task. A listener in the JVM keeps the newest
of each executor. Python asks it now and then: one that the JVM calls would cost every task of every batch.

Needs `SparkListener` and its events of heartbeats and removals, `ExecutorMetrics.getMetricValue`, and Janino, the
compiler with which Spark generates code: no jar has to be shipped.
"""

from collections.abc import Mapping
from typing import Any, Final

JVM: Final = "ProcessTreeJVMRSSMemory"
PYTHON: Final = "ProcessTreePythonRSSMemory"
HEAP: Final = "JVMHeapMemory"
OFF_HEAP: Final = "JVMOffHeapMemory"
PARTS: Final = (JVM, PYTHON, HEAP, OFF_HEAP)
"""Spark's names of what is kept, in bytes."""

_NAME: Final = "StreamwardenExecutorMemory"
_LISTENER: Final = f"""
import org.apache.spark.executor.ExecutorMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;

public class {_NAME} extends SparkListener {{
    private static final String[] PARTS = {{{", ".join(f'"{part}"' for part in PARTS)}}};
    private final java.util.Map newest = new java.util.HashMap();

    public synchronized void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate heartbeat) {{
        long[] parts = new long[PARTS.length];
        boolean measured = false;
        scala.collection.Iterator stages = heartbeat.executorUpdates().valuesIterator();
        while (stages.hasNext()) {{
            ExecutorMetrics metrics = (ExecutorMetrics) stages.next();
            for (int part = 0; part < parts.length; ++part) {{
                parts[part] = Math.max(parts[part], metrics.getMetricValue(PARTS[part]));
                measured = measured || parts[part] > 0;
            }}
        }}
        if (measured) {{
            newest.put(heartbeat.execId(), parts);
        }}
    }}

    public synchronized void onExecutorRemoved(SparkListenerExecutorRemoved removal) {{
        newest.remove(removal.executorId());
    }}

    public synchronized String toString() {{
        StringBuilder lines = new StringBuilder();
        for (java.util.Iterator executors = newest.keySet().iterator(); executors.hasNext();) {{
            Object executor = executors.next();
            lines.append(executor);
            long[] parts = (long[]) newest.get(executor);
            for (int part = 0; part < parts.length; ++part) {{
                lines.append(' ').append(parts[part]);
            }}
            lines.append('\\n');
        }}
        return lines.toString();
    }}
}}
"""
"""A heartbeat has the executor's metrics once for each stage of which it runs a task. One whose task began within the
heartbeat has zeros."""


class ExecutorMemory:
    """Listens to a session's executors from its construction on. One in a JVM: py4j finds the methods of a class by its
    name, and takes those of the first for those of a second."""

    def __init__(self, session: Any) -> None:
        self._listener = _new(session, _LISTENER, _NAME)
        session.sparkContext._jsc.sc().addSparkListener(self._listener)

    def newest(self) -> dict[str, Mapping[str, int]]:
        """Executor -> its parts of memory at its newest heartbeat with a running task."""
        found: dict[str, Mapping[str, int]] = {}
        for line in self._listener.toString().splitlines():
            executor, *sizes = line.split(" ")
            found[executor] = dict(zip(PARTS, map(int, sizes), strict=True))
        return found


def _new(session: Any, source: str, name: str) -> Any:
    """An object of a Java class that the JVM compiles."""
    jvm, array = session._jvm, session.sparkContext._gateway.new_array
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
    compiler.cook(source)
    constructor = compiler.getClassLoader().loadClass(name).getConstructor(array(jvm.java.lang.Class, 0))
    return constructor.newInstance(array(jvm.java.lang.Object, 0))
