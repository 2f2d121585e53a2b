"""A stream in client mode on a YARN that wants Kerberos logins, across the life of its ticket.

The stream's file names a principal and a keytab. When its first ticket has expired, the ResourceManager is killed and
started again: the driver has to log in there anew, which its first ticket would not let it do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.lifecycle.driver import ExitKind
from streamwarden.stream.spark import ExecutorsSpec, SparkSpec
from streamwarden.stream.spec import StreamSpec
from support.servers.hadoop import RESOURCE_MANAGER, Yarn
from support.servers.hadoop import yarn as running_yarn
from support.servers.kdc import REALM, Kdc, kdc
from support.spark.drivers import COUNTS, QUICK, Project, project, until

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(900)]

LIFE = 120
"""Seconds of a ticket."""


@pytest.fixture(scope="module")
def guard() -> Iterator[Kdc]:
    with kdc(life=LIFE) as opened:
        yield opened


@pytest.fixture(scope="module")
def guarded(guard: Kdc) -> Iterator[Yarn]:
    with running_yarn(guard=guard) as opened:
        yield opened


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with project(tmp_path_factory.mktemp("project")) as opened:
        yield opened


def stream(made: Project, guarded: Yarn, guard: Kdc, keytab: Path | None) -> StreamSpec:
    java = {"JDK_JAVA_OPTIONS": guard.java_option}
    containers = ("spark.yarn.appMasterEnv.", "spark.executorEnv.")
    found = {f"{prefix}{key}": value for prefix in containers for key, value in java.items()}
    conf = {**QUICK, **guarded.spark_conf(sys.executable), **found}
    executors = ExecutorsSpec(instances=1, cores=1, memory=600 * 2**20)
    spark = SparkSpec(master="yarn", driver_memory=700 * 2**20, executors=executors, conf=conf)
    if keytab is not None:
        spark = replace(spark, principal=f"streams@{REALM}", keytab=str(keytab))
    return made.spec("counted" if keytab is not None else "stranger", COUNTS, spark=spark)


def start(made: Project, guarded: Yarn, guard: Kdc, spec: StreamSpec) -> str:
    return made.start(spec, env={"HADOOP_CONF_DIR": str(guarded.conf), "JDK_JAVA_OPTIONS": guard.java_option})


def test_a_stream_with_a_keytab_outlives_its_ticket(made: Project, guarded: Yarn, guard: Kdc) -> None:
    """The same driver commits after the ticket's life, and after it had to log in again."""
    made.publish(2)
    spec = stream(made, guarded, guard, guard.keytab("streams"))
    driver = start(made, guarded, guard, spec)
    made.await_batches(spec, 2)
    begun = time.time()
    until("the first ticket has expired", lambda: time.time() > begun + LIFE + 10, timeout=LIFE + 60, poll=1.0)

    guarded.kill(RESOURCE_MANAGER)
    guarded.start(RESOURCE_MANAGER)
    guarded.await_open()
    (application,) = guarded.applications(applicationTags=driver.lower())
    until("it runs as far as YARN knows", lambda: guarded.application(application["id"])["state"] == "RUNNING")
    made.publish(1)
    made.await_batches(spec, 3)
    made.fleet.stop(spec.name, requested_by="test", reason="the end")
    assert made.await_end(driver).kind is ExitKind.STOPPED


def test_a_stream_without_a_login_is_refused(made: Project, guarded: Yarn, guard: Kdc) -> None:
    """The control: this YARN lets nobody in without a ticket. Hadoop's client tries again, for a quarter of an hour."""
    driver = start(made, guarded, guard, stream(made, guarded, guard, None))
    until("it was refused", lambda: "AccessControlException" in made.fleet.log_path(driver).read_text())
    assert not guarded.applications(applicationTags=driver.lower())
    made.fleet.kill(driver)
