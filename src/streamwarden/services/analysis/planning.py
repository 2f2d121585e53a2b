"""The logical plan of a job's query, from a Spark that builds it and starts nothing."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from streamwarden.adapters.jvm.environments import environment_of, spark_variables
from streamwarden.adapters.jvm.java import find_java
from streamwarden.config.stored_spec import spec_to_dict
from streamwarden.errors import JobError
from streamwarden.services.fleet.launching.one_off_spark import in_quick_jvm, on_this_host, program_command
from streamwarden.stream.spec import StreamSpec

TIMEOUT: Final = 180.0
"""Seconds; it takes some ten on two idle cores."""

MEMORY: Final = 700 * 2**20
"""Bytes of the heap in which a plan is built."""

_INSTEAD: Final = "the job's text was read instead"


def logical_plan(spec: StreamSpec) -> str:
    """The analyzed plan, as Spark prints it. The job's `build` runs in a separate process; its query does not run.

    Raises:
        JobError: there is no plan: the job is a script, or its build or Spark fails.
        ProcessError: there is no usable Java, or the jars that the source needs are not on this host.
    """
    if not spec.source.DECLARED:
        raise _none(spec, "the job is a script that starts its own query: there is no plan without running it")
    java = find_java()
    with tempfile.TemporaryDirectory(prefix="streamwarden-plan-") as scratch:
        folder = Path(scratch)
        (folder / "spec.json").write_text(json.dumps(spec_to_dict(spec)), encoding="utf-8")
        try:
            done = subprocess.run(
                program_command("plan", in_quick_jvm(on_this_host(spec, "local[1]", MEMORY)), folder, java),
                env=spark_variables(environment_of(spec.spark), java),
                cwd=spec.data if spec.data and Path(spec.data).is_dir() else scratch,  # relative paths are below it
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _none(spec, f"build() took longer than {TIMEOUT:.0f} s") from error
        plan, problem = folder / "plan.txt", folder / "problem.txt"
        if plan.exists():
            return plan.read_text(encoding="utf-8")
        if problem.exists():
            raise _none(spec, problem.read_text(encoding="utf-8").strip())
        raise _none(spec, f"Spark ended with {done.returncode}: {done.stderr[-1000:].strip()}")


def _none(spec: StreamSpec, observed: str) -> JobError:
    return JobError(
        f"no logical plan: {observed}",
        expected="a job with build(spark, spec) that returns a streaming DataFrame or a DataStreamWriter",
        where=spec.job,
        next_step=_INSTEAD,
    )
