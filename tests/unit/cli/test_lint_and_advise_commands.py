"""`lint` and `advise`: for people, for programs, and what their exit codes say."""

import time
from pathlib import Path

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.services.analysis import planning
from streamwarden.stream.spec import StreamSpec
from support.command_line import CommandLine
from support.streams.reports import START, operator, report

DRILL = "name: kill\nstream: {stream}\nfault: {{kind: kill_driver}}\n"
GOOD = '''\
    """Orders.

    State: one row for each order of the last hour.
    """
    def build(spark, spec):
        orders = spark.readStream.json("in").withWatermark("at", "1 hour")
        return orders.dropDuplicatesWithinWatermark(["id"])
'''
BAD = GOOD.replace('.withWatermark("at", "1 hour")', "").replace("dropDuplicatesWithinWatermark", "dropDuplicates")
OPAQUE = "def build(spark, spec):\n    return elsewhere(spark)\n"


def stream(cli: CommandLine, job: str, name: str = "orders") -> None:
    cli.project.write("spark_jobs/job.py", job)
    cli.project.stream(name)
    cli.project.write("config/drills/kill.yaml", DRILL.format(stream=name))


PLANS = {
    "dropDuplicatesWithinWatermark": "~DeduplicateWithinWatermark [id#0]\n+- ~EventTimeWatermark x, at#1: timestamp\n",
    "dropDuplicates(": "~Deduplicate [id#0]\n+- StreamingRelation x, [id#0]\n",
    "elsewhere": "~Deduplicate [id#0]\n+- StreamingRelation x, [id#0]\n",
}


@pytest.fixture(autouse=True)
def plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's answer for each job; that Spark gives it is the subject of tests/spark/proofs/test_lint_plan.py."""
    built = planning.logical_plan

    def logical_plan(spec: StreamSpec) -> str:
        text = Path(spec.job).read_text()
        of_job = (plan for call, plan in PLANS.items() if call in text)
        return built(spec) if not spec.source.DECLARED else next(of_job)

    monkeypatch.setattr(planning, "logical_plan", logical_plan)


def test_a_good_stream_is_0(cli: CommandLine) -> None:
    stream(cli, GOOD)
    answer = cli("lint", "--plan")
    assert answer.code == Exit.OK
    assert "✓ orders: nothing found" in answer.out


def test_unbounded_state_exits_with_1_and_names_the_line_and_next_step(cli: CommandLine) -> None:
    stream(cli, BAD)
    answer = cli("lint", "orders", "--plan")
    assert answer.code == Exit.BAD
    assert "SW101" in answer.out
    assert "logical plan: Deduplicate [id#0]" in answer.out
    assert "dropDuplicatesWithinWatermark" in answer.out


def test_a_warning_is_0_or_1_if_strict(cli: CommandLine) -> None:
    stream(cli, GOOD)
    cli.project.stream("others")
    assert cli("lint", "others", "--plan").code == Exit.OK
    assert cli("lint", "others", "--plan", "--strict").code == Exit.BAD


@pytest.mark.parametrize("job", [GOOD, BAD, OPAQUE])
def test_without_a_plan_and_a_checkpoint_a_job_is_undecided(cli: CommandLine, job: str) -> None:
    stream(cli, job)
    answer = cli("lint")
    assert answer.code == Exit.UNDECIDED
    assert "what state the job keeps, and what bounds it, is not known" in answer.out
    assert "--plan" in answer.out


def test_programs_get_each_finding_with_its_source(cli: CommandLine) -> None:
    stream(cli, BAD)
    answer = cli("lint", "--plan", "--json")
    (finding,) = answer.json["streams"]["orders"]["findings"]
    assert (finding["rule"], finding["severity"], finding["origin"]) == ("SW101", "error", "logical plan")
    assert answer.json["streams"]["orders"]["not_read"] == []


def test_linting_makes_no_store(cli: CommandLine) -> None:
    stream(cli, GOOD)
    cli("lint")
    assert not cli.project.data.exists()


def test_with_a_store_the_history_is_read(cli: CommandLine) -> None:
    """The drill of a stream that has run was never completed; a batch is mostly checkpoint."""
    stream(cli, GOOD)
    with cli.store() as store:
        slow = {"triggerExecution": 1000, "addBatch": 100, "walCommit": 400, "commitOffsets": 400}
        store.batches.upsert_progress("orders", report(0, durationMs=slow, batchDuration=1000))
    found = {each["rule"]: each for each in cli("lint", "--json").json["streams"]["orders"]["findings"]}
    assert found["SW107"]["origin"] == found["SW103"]["origin"] == "history"
    assert "never completed" in found["SW107"]["observed"]


def test_a_plan_that_was_asked_for_is_read_instead_of_the_job(cli: CommandLine) -> None:
    stream(cli, OPAQUE)
    found = cli("lint", "--plan", "--json").json["streams"]["orders"]["findings"]
    assert ("SW101", "logical plan") in {(each["rule"], each["origin"]) for each in found}


def test_without_a_plan_the_text_is_read_and_the_reason_is_reported(cli: CommandLine) -> None:
    """A script starts its own query: no Spark is started for it."""
    cli.project.write("spark_jobs/job.py", BAD)
    cli.project.stream("orders", "source: {kind: script}\n")
    path = cli.project.root / "config/streams/orders.yaml"
    path.write_text(path.read_text().replace("source: {path: input/orders}\n", ""))
    answer = cli("lint", "--plan", "--json")
    found = answer.json["streams"]["orders"]
    assert "no plan without running it" in found["not_read"][0]
    assert "job file" in {each["origin"] for each in found["findings"]}


def test_validate_shows_findings_and_stays_0(cli: CommandLine) -> None:
    stream(cli, BAD)
    cli.project.write("spark_jobs/oracles/job.py", "def expected(inputs, facts): ...\n")
    answer = cli("validate")
    assert answer.code == Exit.OK
    assert "SW101 unknown" in answer.out
    assert "SW101" in {each["rule"] for each in cli("validate", "--json").json["findings"]}


def test_with_no_history_advise_is_undecided(cli: CommandLine) -> None:
    stream(cli, GOOD)
    answer = cli("advise", "orders")
    assert answer.code == Exit.UNDECIDED
    assert "too little history" in answer.out
    assert "No number has been measured yet." in answer.out


def test_advice_comes_with_its_numbers(cli: CommandLine) -> None:
    stream(cli, GOOD)
    with cli.store() as store:
        for batch in range(30):
            store.batches.upsert_progress(
                "orders",
                report(batch, at=START + 10 * batch, batchDuration=2000, stateOperators=[operator(numRowsUpdated=100)]),
            )
    answer = cli("advise", "orders", "--json")
    assert answer.code == Exit.OK
    assert answer.json["batches"] == 30
    found = {each["topic"]: each for each in answer.json["advice"]}
    assert found["checkpoint interval"]["status"] == "keep"
    assert {each["name"] for each in found["trigger"]["numbers"]} >= {"rows a second", "cost of a row"}
    assert found["state size"]["status"] == "unknown"
    assert "there is no state under" in answer.json["not_read"][0]
    assert "T_checkpoint_cost" in cli("advise", "orders").out


def test_the_drivers_first_batch_counts_although_the_history_is_longer(cli: CommandLine) -> None:
    """400 batches ago: a restart of 29.6 s, not of the hour since."""
    stream(cli, GOOD)
    now = time.time()
    driver = DriverRecord(
        driver_id="d",
        stream="orders",
        checkpoint="c",
        token=1,
        folder="/f",
        launched_by="test",
        launched_at=now - 4027.6,
        run_id="run-1",
        started_at=now - 4001,
    )
    with cli.store() as store:
        store.drivers.launched(driver)
        store.batches.upsert_many(
            "orders", [report(n, at=now - 4000 + 10 * n, batchDuration=2000, stateOperators=[]) for n in range(400)]
        )
    advice = {each["topic"]: each for each in cli("advise", "orders", "--json").json["advice"]}
    numbers = {each["name"]: each["value"] for each in advice["capacity"]["numbers"]}
    assert numbers["restart"] == pytest.approx(29.6, abs=0.01)


def test_advise_needs_a_stream_that_is_there(cli: CommandLine) -> None:
    assert cli("advise", "nobody").code == Exit.USAGE


def slow_batches(cli: CommandLine) -> None:
    """Batches that take longer than their trigger of two seconds."""
    with cli.store() as store:
        for batch in range(30):
            store.batches.upsert_progress(
                "orders",
                report(batch, at=START + 30 * batch, batchDuration=9000, durationMs={"triggerExecution": 9000}),
            )


def test_advice_shows_what_it_would_change_of_the_file_and_writes_nothing(cli: CommandLine) -> None:
    stream(cli, GOOD)
    slow_batches(cli)
    file = cli.project.root / "config/streams/orders.yaml"
    before = file.read_text()
    answer = cli("advise", "orders")
    assert "What the advice would change" in answer.out
    assert "+  processing_time: 12 seconds" in answer.out
    assert file.read_text() == before
    document = cli("advise", "orders", "--json").json
    (change,) = document["changes"]
    assert (change["setting"], change["after"], change["how"]) == (
        "trigger.processing_time",
        "12 seconds",
        "tried on a fork",
    )
    assert "+  processing_time: 12 seconds" in document["diff"]


def test_apply_says_when_there_is_too_little_history(cli: CommandLine) -> None:
    stream(cli, GOOD)
    answer = cli("advise", "orders", "--apply")
    assert answer.code == Exit.UNDECIDED
    assert "nothing was tried or written: there is too little history for any advice" in answer.out


def test_settings_that_cannot_be_tried_are_an_error_with_its_next_step(cli: CommandLine) -> None:
    """The stream has no checkpoint that a fork could begin with."""
    stream(cli, GOOD)
    slow_batches(cli)
    file = cli.project.root / "config/streams/orders.yaml"
    before = file.read_text()
    answer = cli("advise", "orders", "--apply")
    assert answer.code == Exit.BAD
    assert "next:" in answer.err.lower()
    assert file.read_text() == before
