"""Which processes of a host are the executors of a driver. The processes are real, their command lines made up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from streamwarden.adapters import processes
from streamwarden.lifecycle.submission import executor_tag
from streamwarden.services.drilling.ports.executors import ForkExecutors

BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
KUBERNETES = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
FORK = f"flights{os.getpid()}__fork-20260102T030405"  # other tests look for theirs on this host at the same time
MINE, OTHER = f"{FORK}-0011aabb", f"{FORK}-0011aabc"


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits, with `arguments` in its command line."""
    program = "import sys; sys.stdout.write('up'); sys.stdout.flush(); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.read(2) == b"up"
        yield child
    finally:
        child.kill()
        child.communicate()


def test_only_the_executors_of_this_very_driver_are_found() -> None:
    with ExitStack() as stack:
        start = [
            (executor_tag(MINE), BACKEND, "--executor-id", "10"),
            (executor_tag(MINE), KUBERNETES, "--executor-id", "2"),
            (executor_tag(OTHER), BACKEND, "--executor-id", "0"),  # of another driver
            ("-Xmx1g", BACKEND, "--executor-id", "0"),  # of nobody that we know
            (executor_tag(MINE), "org.apache.spark.deploy.worker.Worker"),  # not an executor
            (f"java {executor_tag(MINE)} {BACKEND}",),  # the shell that starts one
        ]
        started = [stack.enter_context(process(*arguments)) for arguments in start]
        found = ForkExecutors().find(MINE)
        assert [(each.id, each.process.pid) for each in found] == [("2", started[1].pid), ("10", started[0].pid)]
        assert [each.process.pid for each in ForkExecutors().find(OTHER)] == [started[2].pid]
        assert ForkExecutors().find(f"{FORK}-0011aab") == []


def test_a_killed_executor_lives_no_more_and_is_not_killed_twice() -> None:
    with process(executor_tag(MINE), BACKEND, "--executor-id", "0") as child:
        (executor,) = ForkExecutors().find(MINE)
        assert ForkExecutors().is_alive(executor)
        assert ForkExecutors().kill(executor)
        child.wait(timeout=10)
        assert not ForkExecutors().is_alive(executor)
        assert not ForkExecutors().kill(executor)
        assert ForkExecutors().find(MINE) == []


def test_a_pid_that_was_given_to_another_process_is_left_alone() -> None:
    with process(executor_tag(MINE), BACKEND, "--executor-id", "0") as child:
        (executor,) = ForkExecutors().find(MINE)
        process_of = type(executor.process)(host=processes.this_host(), pid=child.pid, started_at=1)
        assert not ForkExecutors().kill(type(executor)(id="0", process=process_of))
        assert child.poll() is None
