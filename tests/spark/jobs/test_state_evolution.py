"""A job's state changes its form under real drivers: version 1, killed in mid-batch; version 2 on its checkpoint.

1. Version 1 reads purchases and is killed in mid-batch.
2. Version 2 starts from its checkpoint and runs the cut batch again. With `--full` it is killed in mid-batch, too.
3. It comes to the end: every customer has what they had, and what they had is under its new name.
4. On a copy of what version 1 left, a change that Spark does not allow: the driver ends before a batch, and says which
   field it was and what to do. Undone, the copy goes on, in the encoding that it has.

Spark runs transformWithState on RocksDB only (test_user_sessions), so nothing runs on the other backend.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import all_offsets
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.upgrades.changes import What
from streamwarden.lifecycle.upgrades.journal import Step, Upgrade
from streamwarden.lifecycle.upgrades.preflight import obstacles
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.services.twins import making
from streamwarden.services.upgrades.journals import NEW, OLD, Upgrades, write_journal
from streamwarden.services.upgrades.live import LiveStream
from streamwarden.services.upgrades.preflight import preflight
from streamwarden.services.upgrades.proposal import Proposal
from streamwarden.services.upgrades.switching import Switch
from streamwarden.services.verifying.verification import read_facts
from streamwarden.sinks.files.output import read_output
from streamwarden.stream.spec import Backend, Encoding, StreamSpec, TriggerSpec
from support.spark.drivers import Project, project
from support.spark.job_runs import REPOSITORY, forged, passed, publish, stream
from support.spark.mid_batch import kill_in_mid_batch, newest
from support.spark.twins import assert_the_twin_agrees
from support.spark.verdicts import verify

pytestmark = pytest.mark.spark

FILES, EACH = 12, 20
CUSTOMERS = tuple(f"c-{number}" for number in range(6))
SLEEPER = "sleeper"
"""A customer who bought under version 1 and comes back at the very end."""

BAD = ("not json", '{"customer":"c-1"}', '{"customer":null,"amount":1}', '{"customer":"c-1","amount":"much"}')


def lines() -> list[list[str]]:
    rng = random.Random(5)
    files = [
        [
            json.dumps(
                {"customer": rng.choice(CUSTOMERS), "amount": rng.choice((1, 1, 1, -1)) * rng.randrange(1, 9_000)}
            )
            for _ in range(EACH)
        ]
        for _ in range(FILES)
    ]
    files[0].append(json.dumps({"customer": SLEEPER, "amount": 4_711}))
    files[-1].append(json.dumps({"customer": SLEEPER, "amount": 1}))
    files[1] += BAD
    return files


@dataclass
class Story:
    """`cut`: the batches in which version 1 was killed, and with `--full` version 2; `twins`: begin with what version 1
    left."""

    made: Project
    spec: StreamSpec
    cut: tuple[int, ...]
    after_version_1: Path
    twins: Path


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with project(tmp_path_factory.mktemp("state_evolution")) as made:
        version_2 = stream("state_evolution", made.data, Backend.ROCKSDB)
        assert version_2.state.encoding is Encoding.AVRO
        version_1 = replace(version_2, args=("version=1",))
        texts = lines()
        source = Path(str(version_2.source.path))
        publish(source, texts)
        first = kill_in_mid_batch(made, version_1, after=2)
        kept = made.root / "after_version_1"
        shutil.copytree(version_2.checkpoint, kept / "checkpoint")
        shutil.copytree(str(version_2.sink.path), kept / "output")
        twins = made.root / "twins"
        making.keep_start(version_2, twins)
        again = request.config.getoption("--full")
        second = [kill_in_mid_batch(made, version_2, after=first + 1)] if again else []
        end = made.await_end(made.start(version_2))
        assert end.kind is ExitKind.COMPLETED, end
        yield Story(made, version_2, (first, *second), kept, twins)


def rows(spec: StreamSpec) -> list[dict[str, Any]]:
    found = read_output(Path(str(spec.sink.path)))
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_the_history_of_both_versions_is_the_oracles(story: Story) -> None:
    outcome = passed(story.spec)
    assert outcome.records == FILES * EACH + len(BAD) + 2
    assert {row["version"] for row in rows(story.spec)} == {1, 2}


@pytest.mark.full  # in the first tier proofs/test_upgrade_preflight has a twin that goes on from an older version
def test_an_unbroken_twin_of_version_2_goes_on_from_version_1_with_the_same_accounts(story: Story) -> None:
    twin = assert_the_twin_agrees(story.spec, story.twins, of="state_evolution", after=story.cut[0] - 1)
    assert (twin.first, twin.last) == (story.cut[0], newest(story.spec.checkpoint, "commits"))


def test_version_2_began_with_the_batch_that_version_1_was_killed_in(story: Story) -> None:
    assert 3 <= story.cut[0] <= story.cut[-1] < FILES
    assert list(story.cut) == sorted(set(story.cut))
    assert verify(story.spec).notes["upgraded_at_batch"] == story.cut[0]
    fields = read_facts(story.spec).state
    assert fields == {
        0: frozenset({"account.entries", "account.points", "account.refunds"}),
        story.cut[0]: frozenset({"account.entries", "account.points", "account.spent", "account.largest"}),
    }


def test_no_cent_is_lost(story: Story) -> None:
    """The ledger of what was published: it needs neither the batches nor the oracle."""
    sent = [json.loads(line) for text in lines() for line in text if line not in BAD]
    newest_row = {row["customer"]: row for row in sorted(rows(story.spec), key=lambda row: row["entries"])}
    for customer in (*CUSTOMERS, SLEEPER):
        amounts = [each["amount"] for each in sent if each["customer"] == customer]
        assert (newest_row[customer]["entries"], newest_row[customer]["spent"]) == (len(amounts), sum(amounts))
    assert sum(row["added"] for row in rows(story.spec)) == len(sent)


def test_a_customer_whom_version_2_first_sees_at_the_end_keeps_what_version_1_wrote(story: Story) -> None:
    """Their row lay in the checkpoint in the old form, through two kills: the value moves to its new name then."""
    told = sorted((row for row in rows(story.spec) if row["customer"] == SLEEPER), key=lambda row: row["entries"])
    assert [(row["version"], row["spent"], row["refunds"], row["largest"]) for row in told] == [
        (1, 4_711, 0, None),
        (2, 4_712, None, 1),
    ]


def test_forged_history_is_caught(story: Story, tmp_path: Path) -> None:
    found = forged(
        story.spec,
        tmp_path,
        forgotten=lambda rows: [{**rows[0], "spent": 0}, *rows[1:]],
    )
    assert found == {"forgotten": (0, 0, 0, 1)}


# Other changes, each on a copy of what version 1 left


def relocate(folder: Path, old: str, new: Path) -> None:
    """The metadata of an operator and the manifest of an output name their files by absolute paths."""
    for file in folder.iterdir():
        if file.suffix == ".crc":
            file.unlink()
        else:
            file.write_text(file.read_text().replace(old, str(new)))


def from_version_1(story: Story, name: str, **changes: Any) -> StreamSpec:
    data = story.made.data
    shutil.copytree(story.after_version_1 / "checkpoint", data / "checkpoints" / name)
    shutil.copytree(story.after_version_1 / "output", data / "output" / name)
    relocate(data / "checkpoints" / name / "state/0/_metadata/v2", story.spec.checkpoint, data / "checkpoints" / name)
    relocate(data / "output" / name / "_spark_metadata", str(story.spec.sink.path), data / "output" / name)
    return replace(
        story.spec,
        name=name,
        checkpoint=str(data / "checkpoints" / name),
        sink=replace(story.spec.sink, path=str(data / "output" / name)),
        **changes,
    )


@pytest.mark.full  # in the first tier proofs/test_upgrade_preflight has a version that Spark refuses, with its fields
def test_a_field_of_another_type_ends_the_driver_and_is_named(story: Story) -> None:
    """What Spark allows, such as the wider field beside it, is not reported. The checkpoint stays as it was."""
    text = (REPOSITORY / "spark_jobs/state_evolution.py").read_text()
    before, after = "entries BIGINT, points INT,", "entries BIGINT, points STRING,"
    assert before in text
    wrong = from_version_1(story, "as_text", job=str(story.made.job("as_text", text.replace(before, after))))
    record = story.made.await_end(story.made.start(wrong))
    assert (record.kind, record.curable) == (ExitKind.FAILED, False)
    assert record.error_class == "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"
    assert record.message.startswith("the state's field points is INT in the checkpoint and STRING in the job: ")
    assert "new name" in record.next_step
    assert "new checkpoint path" in record.next_step
    assert newest(wrong.checkpoint, "commits") == story.cut[0] - 1
    undone = replace(wrong, job=story.spec.job, state=replace(wrong.state, encoding=Encoding.UNSAFEROW))
    assert story.made.await_end(story.made.start(undone)).kind is ExitKind.COMPLETED
    assert verify(undone).exactly_once
    conf = all_offsets(open_path(undone.checkpoint))[FILES - 1].conf
    encoding = "Spark writes it down with each batch and goes on with it, whatever the setting, without a word"
    assert conf["spark.sql.streaming.stateStore.encodingFormat"] == "avro", encoding


# The same upgrade by `streamwarden upgrade`


@pytest.mark.full
def test_the_upgrade_is_tried_on_forks_and_each_field_is_named(story: Story) -> None:
    before = from_version_1(story, "tried", args=("version=1",))
    proposal = Proposal(before=before, after=replace(before, args=("version=2",)), old_text="", new_text="")
    found = preflight(proposal, story.made.root / "tried", batches=2)
    assert found.refused is None
    assert {(change.what, change.before, change.after) for change in found.state} == {
        (What.FIELD_TYPE, "entries integer", "entries long"),
        (What.FIELD_VANISHES, "refunds integer", None),
        (What.FIELD_APPEARS, None, "spent long"),
        (What.FIELD_APPEARS, None, "largest integer"),
    }
    assert found.output is not None
    output = found.output
    assert output.old == output.new == output.gone == output.added > 0, "each row names its version, and has no key"
    assert len(obstacles(found, accepted=False)) == 1
    assert obstacles(found, accepted=True) == ()


@pytest.mark.full
def test_a_running_stream_is_switched_to_version_2_and_no_purchase_is_lost(story: Story) -> None:
    file = story.made.root / "upgraded.yaml"
    file.write_text("version 1")
    before = from_version_1(
        story, "upgraded", args=("version=1",), trigger=TriggerSpec(processing_time=0.2), file=str(file)
    )
    after = replace(before, args=("version=2",))
    story.made.start(before)
    story.made.await_batches(before, story.cut[0] + 2)
    folder = Upgrades.of(before).root / "20261126T000000Z"
    folder.mkdir(parents=True)
    (folder / OLD).write_text("version 1")
    (folder / NEW).write_text("version 2")
    begun = Upgrade(
        id=folder.name, stream=before.name, step=Step.PREPARED, by="ann", reason="", before="1", after="2", watch=1.0
    )
    live = LiveStream(
        store=story.made.store,
        fleet=story.made.fleet,
        monitor=HealthMonitor(story.made.store),
        declared=lambda: before if file.read_text() == "version 1" else after,
        by="ann",
        say=lambda text: None,
    )
    ended = Switch(
        store=story.made.store, live=live, spec=before, folder=folder, upgrade=write_journal(folder, begun)
    ).carry_out()
    assert ended.step is Step.DONE, ended
    story.made.await_batches(after, FILES)
    assert story.made.fleet.stop(after.name, requested_by="ann", reason="the end") is not None
    outcome = verify(after)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.notes["upgraded_at_batch"] == (ended.batch or 0) + 1
