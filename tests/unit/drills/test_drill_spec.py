"""A drill as data: what is allowed, and the JSON form that passes from step to step."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streamwarden.config.loading import load_drill, load_drills
from streamwarden.drills.faults import Course
from streamwarden.drills.faults.service_outage import OutageService, OutageSpec
from streamwarden.drills.records.codec import decode, encode
from streamwarden.drills.records.sections import ForkSpec, RecoverySpec, SteadyStateSpec, VerificationSpec
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import ConfigError
from support.simulated.drill_specs import fault_of
from support.streams.catalogue import drills

PROJECT = Path(__file__).parents[3]


BY_THE_CLOCK = {"kill_windowed_values": 20_000}
"""Drills of streams whose input nothing makes faster, and the records that have to be verified."""


def test_the_shipped_drills_are_valid_standard_drills() -> None:
    for drill in drills().values():
        assert drill.verification.min_records >= BY_THE_CLOCK.get(drill.name, 100_000)
        assert drill.schedule
        if drill.course is Course.STRUCK:
            assert drill.fork.batches is not None
            assert drill.fork.batches >= drill.batches_needed


def test_the_drills_of_the_page_about_drills_can_be_used(tmp_path: Path) -> None:
    page, stores = (_guide(name) for name in ("drills", "object-stores"))
    shown = _drills_of(page)
    assert len(shown) == page.count("```yaml") == 7
    shown += _drills_of(stores)
    for name, text in shown:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    drills, broken = load_drills(tmp_path)
    assert broken == {}
    assert {fault.kind for drill in drills.values() for fault in drill.sequence} >= {
        "kill_executor",
        "service_outage",
        "retention_passed",
        "checkpoint_damage",
    }
    assert [drill.name for drill in drills.values() if drill.fork.at] == ["killed_in_the_store"]


def _guide(name: str) -> str:
    return (PROJECT / "docs" / "how-to" / f"{name}.md").read_text()


def _drills_of(page: str) -> list[tuple[str, str]]:
    return re.findall(r"```yaml\n# (config/drills/\w+\.yaml)\n(.*?)```", page, re.DOTALL)


def test_a_drill_survives_the_way_through_json() -> None:
    spec = DrillSpec(
        name="night",
        stream="flights",
        fault=fault_of("controlled_restart", attempts=2, within=9.5),
        fork=ForkSpec(rewind=4, batches=30, keep=True, at="s3a://lake/drills of mine"),
        steady_state=SteadyStateSpec(min_batches=1, checks=("state_size",)),
        recovery=RecoverySpec(target=1.0, deadline=2.0),
        verification=VerificationSpec(min_records=5),
        schedule="@daily",
        tags=("a", "b"),
    )
    assert decode(DrillSpec, json.loads(json.dumps(encode(spec)))) == spec


@pytest.mark.parametrize(
    ("yaml", "key"),
    [
        ("target: live", "target"),
        ("target: production", "production"),
        ("fork: {rewind: -1}", "rewind"),
        ("fork: {rewind: some}", "rewind"),
        ("fork: {batches: 0}", "batches"),
        ("fork: {at: /data/drills}", "at"),
        ("fork: {at: s3a://lake}", "at"),
        ("fork: {at: s3a://lake/a/../b}", "at"),
        ("steady_state: {min_batches: 0}", "min_batches"),
        ("steady_state: {checks: [state_sise]}", "checks"),
        ("recovery: {target: 20m, deadline: 1m}", "deadline"),
        ("verification: {min_records: 0}", "min_records"),
        ("verification: {oracle: hope}", "oracle"),
        ("surprise: 1", "surprise"),
    ],
)
def test_a_wrong_drill_file_names_the_key(tmp_path: Path, yaml: str, key: str) -> None:
    path = tmp_path / "config" / "drills" / "night.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(f"name: night\nstream: flights\nfault: {{kind: kill_driver}}\n{yaml}\n")
    with pytest.raises(ConfigError) as error:
        load_drill(path, project=tmp_path)
    assert key in str(error.value)
    assert "night.yaml" in str(error.value)


OUTAGE = "outage: {service: source, down: [docker, stop, kafka], up: [docker, start, kafka], lasts: 20s}"


def test_an_outage_is_data_too_and_survives_the_way_through_json(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    path.write_text(f"name: night\nstream: flights\nfault: {{kind: service_outage, {OUTAGE}}}\n")
    spec = load_drill(path, project=tmp_path)
    outage = OutageSpec(
        service=OutageService.SOURCE, down=("docker", "stop", "kafka"), up=("docker", "start", "kafka"), lasts=20.0
    )
    assert spec.fault == fault_of("service_outage", outage=outage)
    assert decode(DrillSpec, json.loads(json.dumps(encode(spec)))) == spec


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("kind: service_outage", r"outage: the required key is missing; expected a mapping of service, down, up"),
        (f"kind: kill_driver, {OUTAGE}", "nothing: `kind: kill_driver` has no outage"),
        (f"kind: service_outage, within: 10s, {OUTAGE}", r"within.*more than the outage lasts"),
        (
            "kind: service_outage, " + OUTAGE.replace("source", "moon"),
            "'moon' is not known; expected 'source', 'sink'",
        ),
        ("kind: service_outage, " + OUTAGE.replace("[docker, start, kafka]", "docker start kafka"), "up.*a list"),
        ("kind: service_outage, " + OUTAGE.replace("[docker, start, kafka]", "[]"), "a program and its arguments"),
        ("kind: service_outage, " + OUTAGE.replace("start", "7"), r"up\[1\]: the number 7; expected text"),
        ("kind: service_outage, " + OUTAGE.replace("20s", "soon"), "'soon' cannot be read; expected a duration"),
        ("kind: service_outage, " + OUTAGE.replace("up:", "back:"), "unknown key"),
    ],
)
def test_impossible_outage_is_refused_with_the_allowed_values(tmp_path: Path, fault: str, words: str) -> None:
    path = tmp_path / "night.yaml"
    path.write_text(f"name: night\nstream: flights\nfault: {{{fault}}}\n")
    with pytest.raises(ConfigError) as error:
        load_drill(path, project=tmp_path)
    assert re.search(words, str(error.value)), error.value


def test_a_fork_whose_topic_is_a_copy_cannot_be_rewound(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    path.write_text("name: night\nstream: flights\nfault: {kind: retention_passed}\nfork: {rewind: 3}\n")
    with pytest.raises(ConfigError) as error:
        load_drill(path, project=tmp_path)
    expected = "night.yaml:4: fork.rewind: 3; expected `all`: the topic that retention_passed breaks is a new copy"
    assert str(error.value) == expected


def test_unknown_target_is_refused_with_the_allowed_values(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    path.write_text("name: night\nstream: flights\nfault: {kind: kill_driver}\ntarget: staging\n")
    with pytest.raises(ConfigError, match=r"fork.*production"):
        load_drill(path, project=tmp_path)


def test_an_unknown_fault_is_refused_with_the_faults_that_there_are(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    path.write_text("name: night\nstream: flights\nfault: {kind: unplug}\n")
    with pytest.raises(ConfigError, match=r"controlled_restart.*kill_driver"):
        load_drill(path, project=tmp_path)
