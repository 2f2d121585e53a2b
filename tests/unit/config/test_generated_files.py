"""Whatever a configuration file holds: a value or a ConfigError, within a bound of time and of memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given

from streamwarden.airflow.dags.docs import broken_doc, drill_doc, stream_doc
from streamwarden.config.isolation import UnforeseenError
from streamwarden.config.loading import load_drill, load_stream, load_thresholds
from streamwarden.config.notifications import FILE, Notifications, load_notifications
from streamwarden.config.stored_spec import spec_from_dict, spec_to_dict
from streamwarden.drills.records.codec import decode, encode
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import ConfigError
from streamwarden.health.thresholds import DEFAULTS, Thresholds
from streamwarden.stream.spec import StreamSpec
from support.generated_input import bounded, generated_input
from support.streams.projects import Project
from support.yaml_documents import documents

Spec = TypeVar("Spec")

STREAMS: list[dict[str, Any]] = [
    {
        "name": "a",
        "job": "spark_jobs/job.py",
        "description": "counts things",
        "owner": "ops",
        "tags": ["demo", "real"],
        "args": ["--fast"],
        "source": {"kind": "files", "path": "input/a", "format": "json", "max_files_per_trigger": 4},
        "sink": {"kind": "parquet", "path": "output/a", "mode": "append"},
        "checkpoint": "checkpoints/a",
        "quarantine": "quarantine/a",
        "trigger": {"processing_time": "2 seconds"},
        "state": {"backend": "hdfs", "changelog": False, "shuffle_partitions": 8, "ttl": "1 h", "encoding": "avro"},
        "restart": {"initial": "30s", "factor": 2, "cap": "10m", "budget": "5 per hour", "healthy_after": "1h"},
        "stop": {"batch_deadline": "1m", "term_deadline": "250 ms"},
        "health": {"thresholds": {"state_size": {"warning": "1 GB", "critical": "5 GB"}}},
        "spark": {"master": "local[1]", "driver_memory": "1 GiB", "conf": {"spark.ui.enabled": "false"}},
    },
    {
        "name": "a",
        "job": "spark_jobs/job.py",
        "source": {"kind": "kafka", "connection": "events", "topic": "in", "options": {"failOnDataLoss": "true"}},
        "sink": {"kind": "kafka", "connection": "events", "topic": "out", "key": ["id"], "mode": "update"},
        "checkpoint": "s3a://bucket/checkpoints/a",
        "storage": {"connection": "lake"},
        "trigger": {"real_time": "10 s"},
        "spark": {"master": "k8s://https://api", "image": "x:1", "executors": {"instances": 2, "memory": "4 GiB"}},
    },
    {
        "name": "a",
        "job": "spark_jobs/job.py",
        "source": {"kind": "script"},
        "sink": {"kind": "postgresql", "connection": "warehouse", "table": "public.counts", "key": ["id"]},
        "checkpoint": "checkpoints/a",
        "queries": {"left": "checkpoints/a/left", "right": None},
    },
]
DRILLS: list[dict[str, Any]] = [
    {
        "name": "a",
        "stream": "flights",
        "fault": {"kind": "kill_driver", "attempts": 2, "within": "2m"},
        "description": "kills it",
        "target": "fork",
        "fork": {"rewind": "all", "batches": 16, "at": None, "keep": False},
        "steady_state": {"min_batches": 2, "checks": ["state_size"], "within": "5m"},
        "recovery": {"target": "1m", "deadline": "8m"},
        "verification": {"min_records": 12000, "oracle": "job"},
        "schedule": "0 3 * * *",
        "tags": ["night"],
    },
    {
        "name": "a",
        "stream": "flights",
        "fault": {
            "kind": "service_outage",
            "outage": {"service": "source", "down": ["stop", "kafka"], "up": ["start", "kafka"], "lasts": "1m"},
        },
        "fork": {"at": "s3a://lake/drills"},
    },
]
THRESHOLDS: list[dict[str, Any]] = [
    {
        "state_size": {"warning": "1 GB", "critical": "5 GB"},
        "checkpoint_duration": {"warning": 10, "critical": "30 s"},
        "state_update_latency": {"warning": "10 ms"},
        "backlog": {"warning": "1m"},
    }
]
NOTIFICATIONS: list[dict[str, Any]] = [
    {"airflow": [{"notifier": "a.b.C", "kwargs": {"text": "{{ notification.title }}"}}], "resend_interval": "4h"}
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.make(tmp_path_factory.mktemp("project"))


def parsed(load: Callable[[], Spec]) -> Spec | None:
    """What `load` returns; None if it refused the file as it should. Fails the test otherwise."""
    with bounded():
        try:
            return load()
        except UnforeseenError as error:
            raise AssertionError(str(error)) from error.__cause__
        except ConfigError as error:
            str(error).encode()
            broken_doc("a", error).encode()
            return None


@generated_input
@given(raw=documents(STREAMS))
def test_a_streams_file(world: Project, raw: bytes) -> None:
    path = world.root / "config/streams/a.yaml"
    path.write_bytes(raw)
    spec = parsed(lambda: load_stream(path, project=world.root, data=world.data))
    if spec is not None:
        document = json.dumps(spec_to_dict(spec))
        document.encode()
        assert spec_from_dict(json.loads(document)) == spec
        stream_doc(spec, DEFAULTS).encode()


@generated_input
@given(raw=documents(DRILLS))
def test_a_drills_file(world: Project, raw: bytes) -> None:
    path = world.root / "config/drills/a.yaml"
    path.write_bytes(raw)
    spec = parsed(lambda: load_drill(path, project=world.root))
    if spec is not None:
        assert decode(DrillSpec, json.loads(json.dumps(encode(spec)))) == spec
        drill_doc(spec).encode()
        timedelta(seconds=spec.recovery.deadline + 2 * spec.steady_state.within)
        timedelta(seconds=sum(fault.attempts * fault.within for fault in spec.sequence))


@generated_input
@given(raw=documents(THRESHOLDS))
def test_the_file_of_the_thresholds(world: Project, raw: bytes) -> None:
    (world.root / "config/thresholds.yaml").write_bytes(raw)
    found = parsed(lambda: load_thresholds(world.root))
    assert found is None or isinstance(found, Thresholds)


@generated_input
@given(raw=documents(NOTIFICATIONS))
def test_the_file_of_the_notifications(world: Project, raw: bytes) -> None:
    (world.root / FILE).write_bytes(raw)
    found = parsed(lambda: load_notifications(world.root, is_notifier=lambda _: True))
    assert found is None or isinstance(found, Notifications)


def test_the_documents_that_the_tests_damage_are_correct(world: Project) -> None:
    """Otherwise the tests would only try what is refused at its first line."""

    def written(path: str, document: dict[str, Any]) -> Path:
        return world.write(path, json.dumps(document))

    for document in STREAMS:
        path = written("config/streams/a.yaml", document)
        assert isinstance(load_stream(path, project=world.root, data=world.data), StreamSpec)
    for document in DRILLS:
        assert load_drill(written("config/drills/a.yaml", document), project=world.root).name == "a"
    for document in THRESHOLDS:
        written("config/thresholds.yaml", document)
        assert load_thresholds(world.root) != DEFAULTS
    for document in NOTIFICATIONS:
        written(str(FILE), document)
        assert load_notifications(world.root, is_notifier=lambda _: True).airflow
