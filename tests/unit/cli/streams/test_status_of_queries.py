"""`status`, `check`, `inspect`, `incidents` of a stream with several queries."""

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.stream.spec import TriggerSpec
from support.command_line import CommandLine
from support.streams.queries import query_record
from support.streams.recorded_drivers import NOW, driver, incident
from support.streams.reports import report


def pair(cli: CommandLine, process: ProcessIdentity, **right: Any) -> None:
    """Stream `a` with the queries `left` and `right`, which the driver has started; `right` as given."""
    cli.project.stream("a")
    record = driver(cli, process=process)
    with cli.store() as store:
        for name, changes in {"left": {}, "right": right}.items():
            given = {"driver": record.driver_id, **changes}
            store.queries.started(query_record("a", name, at=NOW - 40, **given))
        store.batches.upsert_progress("a/left", report(0))
        store.batches.upsert_progress("a/left", report(1))
        store.batches.upsert_progress("a/right", report(0))


def states(cli: CommandLine) -> dict[str, str]:
    return {each["stream"]: each["state"] for each in cli("status", "--json").json["streams"]}


def test_each_of_several_queries_has_a_line(cli: CommandLine, living: ProcessIdentity) -> None:
    pair(cli, living)
    answer = cli("status", "--json")
    found = {each["stream"]: each for each in answer.json["streams"]}
    assert answer.code == Exit.OK
    assert {name: each["state"] for name, each in found.items()} == dict.fromkeys(("a", "a/left", "a/right"), "running")
    assert [found[name]["batches"] for name in ("a", "a/left", "a/right")] == [3, 2, 1]
    assert [each["stream"] for each in cli("status", "a/left", "--json").json["streams"]] == ["a/left"]
    assert "a/right" in cli("status").out


@pytest.mark.parametrize(
    ("right", "state", "code"),
    [
        ({"ended_at": NOW - 5, "error": "ValueError: poison"}, "ended", Exit.BAD),
        ({"ended_at": NOW - 5}, "ended", Exit.BAD),
        ({"ended_at": NOW - 5, "trigger": TriggerSpec(processing_time=None, available_now=True)}, "completed", Exit.OK),
        ({"driver": "a-20250101T000000-00000000"}, "starting", Exit.OK),
    ],
)
def test_a_query_that_does_not_run_is_reported_from_its_driver_that_does(
    cli: CommandLine, living: ProcessIdentity, right: dict[str, Any], state: str, code: Exit
) -> None:
    pair(cli, living, **right)
    assert states(cli) == {"a": "running", "a/left": "running", "a/right": state}
    assert cli("status").code == code


def test_the_queries_of_a_driver_that_is_down_are_down(cli: CommandLine, living: ProcessIdentity) -> None:
    pair(cli, ProcessIdentity(host=living.host, pid=living.pid, started_at=living.started_at - 1))
    assert states(cli) == {"a": "down", "a/left": "down", "a/right": "down"}


@pytest.mark.parametrize("command", ["status", "check", "inspect"])
@pytest.mark.parametrize("name", ["a/none", "a/../left", "a/left/x"])
def test_a_query_that_is_not_there_is_reported_with_those_that_are(
    cli: CommandLine, living: ProcessIdentity, command: str, name: str
) -> None:
    pair(cli, living)
    answer = cli(command, name)
    assert answer.code != Exit.OK
    if name == "a/none":
        assert "a/left" in answer.err


def test_incidents_of_a_stream_are_those_of_its_queries_too(cli: CommandLine, living: ProcessIdentity) -> None:
    pair(cli, living)
    with cli.store() as store:
        store.incidents.save(replace(incident(Status.CRITICAL), stream="a/left"))
    for name, count in {"a": 1, "a/left": 1, "a/right": 0}.items():
        assert len(cli("incidents", name, "--json").json["incidents"]) == count
