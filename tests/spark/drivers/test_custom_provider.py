"""A custom state store provider: it runs if it is on the classpath, and the driver says so if it is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.submission import PROVIDERS
from streamwarden.stream.spec import Backend, StateSpec, StreamSpec, TriggerSpec
from support.spark.drivers import COUNTS, Project, project
from support.spark.jvm_classes import jar, subclass

pytestmark = pytest.mark.spark

OWN = "com.example.state.OwnProvider"
ONCE = TriggerSpec(available_now=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with project(tmp_path_factory.mktemp("own_provider")) as it:
        it.publish(3)
        yield it


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    return jar(folder / "own.jar", {OWN: subclass(OWN, PROVIDERS[Backend.HDFS])})


def stream(made: Project, name: str, backend: str, *jars: Path) -> StreamSpec:
    spec = made.spec(name, COUNTS, trigger=ONCE, state=StateSpec(backend=backend, shuffle_partitions=1))
    conf = {**spec.spark.conf, **({"spark.jars": ",".join(map(str, jars))} if jars else {})}
    return replace(spec, spark=replace(spec.spark, conf=conf))


def test_a_stream_keeps_its_state_in_a_provider_of_its_own(made: Project, library: Path) -> None:
    spec = stream(made, "own", OWN, library)
    end = made.await_end(made.start(spec))
    assert end.kind is ExitKind.COMPLETED, end
    checkpoint = Path(spec.checkpoint)
    assert f'"spark.sql.streaming.stateStore.providerClass":"{OWN}"' in (checkpoint / "offsets/0").read_text()
    assert list((checkpoint / "state/0/0").glob("*.delta")), "what its parent writes"
    batches = [batch.progress for batch in made.store.batches.window("own") if batch.progress]
    assert sum(report.rows for report in batches) == 60


def test_a_provider_that_is_not_on_the_classpath_is_named_before_the_query_starts(made: Project) -> None:
    spec = stream(made, "missing", OWN)
    end = made.await_end(made.start(spec))
    assert (end.kind, end.error_class) == (ExitKind.FAILED, "ConfigError")
    assert f"state.backend: {OWN} cannot be loaded: java.lang.ClassNotFoundException" in end.message
    assert "spark.jars" in end.next_step
    assert end.curable is False, "a restart finds the same classpath"
    assert not (Path(spec.checkpoint) / "offsets").exists()


@pytest.mark.full  # in the first tier the test before it has a class that cannot be loaded
def test_a_class_that_is_no_provider_is_refused(made: Project) -> None:
    end = made.await_end(made.start(stream(made, "no_provider", "java.util.ArrayList")))
    assert (end.kind, end.error_class) == (ExitKind.FAILED, "ConfigError")
    assert "java.util.ArrayList extends java.util.AbstractList; it is not a StateStoreProvider" in end.message
