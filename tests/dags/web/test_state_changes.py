"""What the tab State offers to change, what it says would be done, and what it takes: keys and values, which go nowhere
else."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from streamwarden.airflow.web.state.offers import offers
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind
from streamwarden.services.state.gathering import Kept
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.airflow.web_server import bearer, served
from support.checkpoints.recorded import Archives

PAGES = "/streamwarden"
API = f"{PAGES}/api/v1/streams"
KEY, VALUE = "person-4711", "48151623"
SCRIPT = "spark.readStream.format('rate').load().writeStream.format('noop').start()\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    archives = Archives(tmp_path_factory.mktemp("archives"))
    with served(tmp_path_factory.mktemp("changes"), _with(archives)) as client:
        yield client


def _with(archives: Archives) -> Callable[[Workspace], None]:
    """`counted`, in RocksDB; `heaped`, whose state is HDFS-backed; `joined`; `processed`, with variables;
    `new`: without a checkpoint; `written`: a script;
    `tabled`: its table needs a connection."""

    def fill(space: Workspace) -> None:
        kinds = {
            "counted": "changelog",
            "heaped": "hdfs",
            "joined": "join",
            "processed": "processor",
        }
        for name, archive in kinds.items():
            path = add_stream(space.project, name)
            archives.unpack(f"spark-4.3.0-{archive}", space.data / name)
            text = path.read_text().replace(f"output/{name}", f"{name}/output")
            path.write_text(text.replace(f"checkpoints/{name}", f"{name}/checkpoint"))
        add_stream(space.project, "new")
        (space.project / "spark_jobs/script.py").write_text(SCRIPT)
        add_stream(space.project, "written", job="script.py")
        tabled = add_stream(space.project, "tabled")
        tabled.write_text(re.sub("sink: .*", "sink: {kind: postgresql, connection: db, table: t}", tabled.read_text()))

    return fill


def offered(server: TestClient, stream: str, role: str = "USER") -> dict[str, Any]:
    """Label of each button -> why it is not possible, or the fields of its dialog."""
    text = server.get(f"{PAGES}/streams/{stream}/state?part=changes", headers=bearer(role)).text
    buttons = re.findall(r"<button ([^>]*data-action=[^>]*)>([^<]*)</button>", text)
    return {label: _of(attributes) for attributes, label in buttons}


def _of(attributes: str) -> Any:
    refused = re.search('aria-disabled="true".*data-tip="([^"]*)"', attributes)
    fields = re.search("data-fields='([^']*)'", attributes)
    return html.unescape(refused[1]) if refused else json.loads(html.unescape(fields[1])) if fields else []


def test_what_is_possible_asks_for_what_it_needs(server: TestClient) -> None:
    found = offered(server, "counted")
    fields = {label: [field["name"] for field in asked] for label, asked in found.items()}
    assert fields == {
        "Rewind": ["batch", "time", "try_first"],
        "Repartition": ["partitions"],
        "Compact": [],
        "Delete keys": ["query", "keys", "where"],
        "Set a value": ["query", "table", "keys", "value"],
        "Upgrade": ["job", "batches", "beside", "watch", "accept", "rollback"],
    }
    assert (found["Rewind"][0]["min"], found["Rewind"][0]["max"]) == (0, 12), "batches before the newest one"


@pytest.mark.parametrize(
    ("stream", "refused"),
    [
        (
            "heaped",
            {"Repartition": "RocksDB alone"}
            | dict.fromkeys(("Compact", "Delete keys", "Set a value"), "RocksDB alone"),
        ),
        ("joined", {"Set a value": "left has no value that could be set: it is a side of a join of symmetricHashJoin"}),
        ("written", {"Upgrade": "the job is a script"}),
        (
            "new",
            dict.fromkeys(
                ("Rewind", "Repartition", "Compact", "Delete keys", "Set a value"), "no batch was committed yet"
            ),
        ),
    ],
)
def test_what_is_not_possible_says_why_and_what_to_do(server: TestClient, stream: str, refused: dict[str, str]) -> None:
    found = offered(server, stream)
    for label, why in refused.items():
        assert why in found[label], found
        assert "; next: " in found[label]
    if stream == "heaped":
        assert [label for label, asked in found.items() if isinstance(asked, str)] == list(refused)


def test_who_may_not_run_a_dag_is_offered_nothing(server: TestClient) -> None:
    found = offered(server, "counted", "VIEWER")
    assert all(str(why).startswith("You may not run the DAG") for why in found.values())


@pytest.mark.parametrize(
    ("dag", "asked", "said"),
    [
        ("rewind_stream", {"batch": 7}, {"Batch": "7. A savepoint", "Taken back": "6 committed batches after it"}),
        ("repartition_stream", {"partitions": 4}, {"State": "from 2 to 4 partitions", "The stream": "It is stopped."}),
        ("compact_state", {}, {"State": "version files"}),
    ],
)
def test_the_plan_says_what_would_be_done(
    server: TestClient, dag: str, asked: dict[str, Any], said: dict[str, str]
) -> None:
    found = server.get(f"{API}/counted/plans/{dag}", params=asked, headers=bearer("VIEWER")).json()
    assert found["refusal"] is None
    assert "counted" in found["subject"]
    for heading, text in said.items():
        assert text in found["said"][heading]


@pytest.mark.parametrize(
    ("stream", "dag", "asked", "why"),
    [
        ("counted", "rewind_stream", {"batch": 99}, "99"),
        ("counted", "rewind_stream", {}, "neither a batch nor a time"),
        ("counted", "rewind_stream", {"time": "2999-01-01T00:00:00"}, "2999-01-01T00:00:00Z: it lies ahead"),
        ("new", "compact_state", {}, "no batch was committed yet"),
        ("counted", "repartition_stream", {"partitions": 2}, "it has 2 partitions already"),
        ("heaped", "compact_state", {}, "rewrites states of RocksDB alone"),
    ],
)
def test_the_plan_says_what_would_be_refused(
    server: TestClient, stream: str, dag: str, asked: dict[str, Any], why: str
) -> None:
    found = server.get(f"{API}/{stream}/plans/{dag}", params=asked, headers=bearer("VIEWER")).json()
    assert why in found["refusal"]["observed"]
    assert found["refusal"]["next_step"]


def test_a_request_reads_no_connection_of_airflow(server: TestClient) -> None:
    found = server.get(f"{API}/tabled/plans/rewind_stream?batch=1", headers=bearer("VIEWER")).json()
    assert "which only a run reads" in found["said"]["Not known here"]


def test_keys_are_taken_and_shown_to_those_who_may_change_the_stream(server: TestClient) -> None:
    asked = server.post(f"{API}/counted/deletions", json={"keys": f" key={KEY} \n"}, headers=bearer("USER")).json()
    assert (asked["wanted"]["keys"]["fields"], asked["by"], asked["planned"]) == ([f"key={KEY}"], "ann (Airflow)", None)
    assert KEY not in asked["id"]
    assert server.get(f"{API}/counted/deletions/{asked['id']}", headers=bearer("USER")).json() == asked
    assert server.get(f"{API}/heaped/deletions/{asked['id']}", headers=bearer("USER")).status_code == 404
    page = f"{PAGES}/streams/counted/state?part=changes"
    assert KEY in server.get(page, headers=bearer("USER")).text
    assert KEY not in server.get(page, headers=bearer("VIEWER")).text
    where = server.post(
        f"{API}/counted/deletions", json={"where": "key.key = 'a'", "operator": 0}, headers=bearer("USER")
    )
    assert where.json()["wanted"] == {"operator": 0, "keys": {"fields": [], "where": "key.key = 'a'"}}


def test_a_value_is_taken_and_shown_to_those_who_may_change_the_stream(server: TestClient) -> None:
    body = {"keys": KEY, "value": f'{{"count":\n {VALUE}}}', "table": "0/count"}
    asked = server.post(f"{API}/processed/assignments", json=body, headers=bearer("USER")).json()
    assert asked["wanted"] == {
        "operator": 0,
        "variable": "count",
        "assignment": {"keys": [KEY], "value": [f'{{"count":\n {VALUE}}}']},
    }
    assert (asked["by"], asked["planned"], asked["refusal"]) == ("ann (Airflow)", None, None)
    assert server.get(f"{API}/processed/assignments/{asked['id']}", headers=bearer("USER")).json() == asked
    assert server.get(f"{API}/processed/assignments", headers=bearer("USER")).json() == [asked]
    assert server.get(f"{API}/processed/deletions", headers=bearer("USER")).json() == []
    page = f"{PAGES}/streams/processed/state?part=changes"
    shown, hidden = (server.get(page, headers=bearer(role)).text for role in ("USER", "VIEWER"))
    assert "person-4711 of count of operator 0" in shown
    for secret in (KEY, VALUE):
        assert secret in shown
        assert secret not in hidden


@pytest.mark.parametrize(
    ("value", "taken"), [(" a=1 \n b={2} \n", ["a=1", "b={2}"]), (["a= 1", "b=2"], ["a= 1", "b=2"]), ("9", ["9"])]
)
def test_a_value_has_a_field_a_line_or_is_one_object(server: TestClient, value: Any, taken: list[str]) -> None:
    asked = server.post(f"{API}/counted/assignments", json={"keys": "k", "value": value}, headers=bearer("USER")).json()
    assert asked["wanted"]["assignment"]["value"] == taken


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"keys": "k"}, {"value": "9"}, {"keys": [], "value": "9"}, {"keys": "k", "value": " "}),
        {"keys": "k", "value": "9", "table": "count"},
    ],
)
def test_key_and_value_are_both_named(server: TestClient, body: dict[str, Any]) -> None:
    assert server.post(f"{API}/counted/assignments", json=body, headers=bearer("USER")).status_code == 422


def test_the_part_of_a_state_is_chosen_if_several_have_values(server: TestClient, space: Workspace) -> None:
    """Lists, maps and timers are no choice."""

    def table(stream: str) -> dict[str, Any]:
        fields = {field["name"]: field for field in offered(server, stream)["Set a value"]}
        return dict(fields["table"])

    assert table("counted") == {"name": "table", "type": "hidden", "value": "0"}
    assert table("processed") == {"name": "table", "type": "hidden", "value": "0/count"}
    add_stream(space.project, "paired")
    values = [StateTable(operator=1, name="transformWithState", kind=TableKind.VALUE, variable=name) for name in "ab"]
    counts = StateTable(operator=0, name="stateStoreSave", kind=TableKind.ROWS)
    timers = replace(values[0], kind=TableKind.TIMERS, variable="timers")
    found = offers(space.stream("paired"), Kept(batches=(), tables=(counts, *values, timers)))
    (fields,) = [offer.fields for offer in found if offer.dag_id == "set_value"]
    assert (fields[1]["type"], fields[1]["options"]) == ("choice", ["0", "1/a", "1/b"])


@pytest.mark.parametrize("body", [{}, {"keys": []}, {"keys": ["a"], "where": "true"}, {"where": ""}])
def test_either_a_key_or_a_condition_is_named(server: TestClient, body: dict[str, Any]) -> None:
    assert server.post(f"{API}/counted/deletions", json=body, headers=bearer("USER")).status_code == 422
