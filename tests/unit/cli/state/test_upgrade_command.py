"""The command `upgrade`: what it refuses before a Spark is started, and how it shows a preflight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.cli.commands.state.upgrading import show_preflight
from streamwarden.cli.exit_codes import Exit
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.lifecycle.upgrades.changes import StateChange, What
from streamwarden.lifecycle.upgrades.journal import Step, Upgrade
from streamwarden.lifecycle.upgrades.preflight import OutputDifference, Preflight
from streamwarden.services.fleet.desired_state import set_desired
from streamwarden.services.upgrades.journals import NEW, OLD, write_journal
from support.command_line import CommandLine
from support.streams.upgrades import STREAM, declare, version


@pytest.fixture
def minutes(cli: CommandLine) -> CommandLine:
    """A project with the stream `minutes`, and a new version of its job."""
    declare(cli.project.root)
    version(cli.project.root, "v2")
    return cli


def job(cli: CommandLine, name: str = "v2") -> tuple[str, str]:
    return "--job", str(cli.project.root / "spark_jobs" / f"{name}.py")


def test_nothing_is_completed_where_nothing_was_interrupted(minutes: CommandLine) -> None:
    refused = minutes("upgrade", "minutes")
    assert refused.code == Exit.BAD
    assert "no upgrade of minutes was interrupted" in refused.err


def test_the_version_in_force_is_no_new_version(minutes: CommandLine) -> None:
    refused = minutes("upgrade", "minutes", *job(minutes, "minutes"), "--preflight")
    assert refused.code == Exit.USAGE
    assert "nothing changes" in refused.err


def test_one_of_job_and_file_is_named(minutes: CommandLine) -> None:
    assert minutes("upgrade", "minutes", *job(minutes), "--file", "x.yaml").code == Exit.USAGE


def test_a_stream_that_a_person_has_stopped_is_not_started(minutes: CommandLine) -> None:
    with minutes.store() as store:
        set_desired(store, "minutes", Desired.STOPPED, by="ann", reason="a fair", now=1.0)
    refused = minutes("upgrade", "minutes", *job(minutes))
    assert refused.code == Exit.USAGE
    assert "minutes was stopped by ann: a fair" in refused.err


def test_a_sink_that_cannot_be_put_back_needs_a_word(minutes: CommandLine) -> None:
    topic = STREAM.replace("sink: {path: origin/output}", "sink: {kind: kafka, connection: k, topic: t, key: [key]}")
    (minutes.project.root / "config/streams/minutes.yaml").write_text(topic)
    refused = minutes("upgrade", "minutes", *job(minutes))
    assert refused.code == Exit.BAD
    assert "cannot be taken back" in refused.err
    assert "--no-rollback" in refused.err


def test_another_upgrade_waits_for_the_one_that_was_interrupted(minutes: CommandLine) -> None:
    folder = minutes.project.data / "upgrades/minutes/20261126T000000Z"
    folder.mkdir(parents=True)
    for name in (OLD, NEW):
        (folder / name).write_text(STREAM)
    upgrade = Upgrade(
        id=folder.name, stream="minutes", step=Step.SWAPPED, by="a", reason="", before="a", after="v1.py", watch=1.0
    )
    write_journal(folder, upgrade)
    refused = minutes("upgrade", "minutes", *job(minutes))
    assert refused.code == Exit.BAD
    assert "the upgrade 20261126T000000Z of minutes to v1.py was interrupted (swapped)" in refused.err
    (folder / "upgrade.json").write_text("{}")
    damaged = minutes("upgrade", "minutes")
    assert "the journal of an upgrade cannot be read" in damaged.err


def test_a_preflight_is_shown_with_its_samples(minutes: CommandLine) -> None:
    change = StateChange(what=What.FIELD_APPEARS, operator=0, where="op, value", before=None, after="b int")
    output = OutputDifference(
        old=5, new=4, gone=1, key=("k",), left_out=("at",), samples={"lost": ("k=[1]",), "unexpected": ()}
    )
    found = Preflight(
        stream="s", job="j", batch=9, first=8, last=9, operators=("op",), seen=True, state=(change,), output=output
    )
    minutes.capture.readouterr()
    show_preflight(found, minutes.project.data)
    shown = minutes.capture.readouterr().out
    assert "s, as of batch 9: 2 batches (8 to 9) on forks" in shown
    assert "operator 0, op, value: field appears: b int" in shown
    assert "5 rows of the old version and 4 of the new differ, identified by k" in shown
    assert "not compared: at, in which two runs of the old version differ" in shown
    assert "of the old version alone: k=[1]" in shown
    show_preflight(replace(found, seen=False, state=(), output=OutputDifference(old=0, new=0)), minutes.project.data)
    shown = minutes.capture.readouterr().out
    assert "was not seen" in shown
    assert "nothing was compared" in shown
