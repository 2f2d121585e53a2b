"""`validate`: all files, every mistake, for people and for programs."""

from streamwarden.cli.exit_codes import Exit
from support.command_line import CommandLine

DRILL = "name: kill\nstream: {stream}\nfault: {{kind: kill_driver}}\n"


ORACLE = "def expected(inputs, facts): ...\n"


def test_a_good_project_is_0(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.write("spark_jobs/oracles/job.py", ORACLE)
    cli.project.write("config/drills/kill.yaml", DRILL.format(stream="a"))
    answer = cli("validate")
    assert answer.code == Exit.OK
    assert "✓ stream a" in answer.out
    assert "✓ drill kill" in answer.out
    assert "3 valid, 0 broken" in answer.out


def test_a_broken_file_is_2_and_the_good_ones_are_still_listed(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.stream("b", "color: red\n")
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "✓ stream a" in answer.out
    assert "✗ stream b" in answer.out
    assert "config/streams/b.yaml:7: color: unknown key" in answer.out


def test_a_job_that_no_parser_can_read_is_reported_and_the_others_are_still_listed(cli: CommandLine) -> None:
    """Python's own parser runs out of stack."""
    cli.project.stream("a")
    cli.project.write("spark_jobs/deep.py", f"x = {'-' * 200_000}1\n")
    path = cli.project.stream("b")
    path.write_text(path.read_text().replace("job.py", "deep.py"))
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "✓ stream a" in answer.out
    assert "✗ stream b" in answer.out


def test_programs_get_each_problem_with_its_key_and_line(cli: CommandLine) -> None:
    cli.project.stream("b", "color: red\nstate: {ttl: soon}\n")
    answer = cli("validate", "--json")
    assert answer.code == Exit.USAGE
    assert answer.json["valid"] is False
    problems = answer.json["errors"][0]["problems"]
    assert [(each["key"], each["line"]) for each in problems] == [("color", 7), ("state.ttl", 8)]
    assert problems[1]["allowed"].startswith("a duration")


def test_a_drill_on_a_stream_that_is_not_there_is_reported(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.write("config/drills/kill.yaml", DRILL.format(stream="aa"))
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "there is no stream 'aa'" in answer.out
    assert "kill.yaml: stream" in answer.out


def test_a_drill_of_a_broken_stream_says_so_and_repeats_none_of_the_streams_errors(cli: CommandLine) -> None:
    cli.project.stream("a", "color: red\n")
    cli.project.write("config/drills/kill.yaml", DRILL.format(stream="a"))
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert answer.out.count("unknown key") == 1
    assert (
        "  config/drills/kill.yaml: stream: the file of the stream 'a' is broken; expected a stream that can be used; "
        "next: correct the file of a, whose errors are listed with it" in answer.out
    )


def test_several_problems_are_a_list_and_the_next_step_is_its_last_line(cli: CommandLine) -> None:
    cli.project.stream("b", "color: red\nshape: round\n")
    lines = cli("validate").out.splitlines()
    first = lines.index("  config/streams/b.yaml: 2 problems")
    assert [line[:5] for line in lines[first + 1 : first + 4]] == ["  - l", "  - l", "  nex"]
    assert "next: correct the file, then run `streamwarden validate`" in lines[first + 3]


def test_a_fault_that_cannot_hit_the_stream_is_reported(cli: CommandLine) -> None:
    cli.project.stream("a")
    outage = "{kind: service_outage, outage: {service: source, down: [stop], up: [start]}}"
    cli.project.write("config/drills/executor.yaml", "name: executor\nstream: a\nfault: {kind: kill_executor}\n")
    cli.project.write("config/drills/topic.yaml", "name: topic\nstream: a\nfault: {kind: kill_after_topic_write}\n")
    cli.project.write("config/drills/outage.yaml", f"name: outage\nstream: a\nfault: {outage}\n")
    for kind in ("partitions_added", "retention_passed", "topic_recreated"):
        cli.project.write(f"config/drills/{kind}.yaml", f"name: {kind}\nstream: a\nfault: {{kind: {kind}}}\n")
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    for kind in ("partitions_added", "retention_passed", "topic_recreated"):
        assert f"{kind} is not applicable: the source of a is of the kind files, not a topic" in answer.out
        assert f"{kind}.yaml: fault" in answer.out
    assert "drill this stream with `kill_driver`" in answer.out
    assert "✗ drill executor" in answer.out
    assert "which has no executors" in answer.out
    assert "executor.yaml: fault" in answer.out
    assert "the sink of a is of the kind parquet, which has no topic" in answer.out
    assert "the source of a is of the kind files" in answer.out


def test_a_drill_that_cannot_come_to_a_verdict_is_refused(cli: CommandLine) -> None:
    """It would break a copy for minutes and say in the end that nothing can be said."""
    cli.project.stream("a")
    cli.project.write("config/drills/kill.yaml", DRILL.format(stream="a"))
    assert cli("validate").code == Exit.OK, "a twin judges it"
    cli.project.write("config/drills/kill.yaml", DRILL.format(stream="a") + "verification: {oracle: job}\n")
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "✗ drill kill" in answer.out
    assert "no drill can judge a: the job has no oracle" in answer.out
    assert "spark_jobs/oracles/job.py" in answer.out
    cli.project.write("spark_jobs/oracles/job.py", "def expected(inputs, facts)\n")
    assert "the oracle cannot be imported: SyntaxError" in cli("validate").out
    cli.project.write("spark_jobs/oracles/job.py", ORACLE)
    assert cli("validate").code == Exit.OK


def test_a_drill_on_a_script_is_valid_if_a_fork_can_redirect_it(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.write("spark_jobs/job.py", "df.writeStream.start()\n")
    cli.project.write("config/drills/kill.yaml", DRILL.format(stream="a"))
    assert "✓ drill kill" in cli("validate").out
    cli.project.write("config/drills/kill.yaml", f"{DRILL.format(stream='a')}fork: {{rewind: 2}}\n")
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "a fork of a script begins with empty checkpoints, and `rewind` is 2" in answer.out
    cli.project.write("config/drills/kill.yaml", DRILL.format(stream="a"))
    cli.project.write("spark_jobs/job.py", "df.writeStream.format('console').start()\n")
    assert "the script's queries write to console, which keeps no output" in cli("validate").out


def test_a_fork_that_cannot_be_where_it_is_wanted_is_reported(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.write("spark_jobs/oracles/job.py", ORACLE)
    path = cli.project.stream("b")
    path.write_text(path.read_text().replace("checkpoints/b", "s3a://lake/b"))
    for name, stream, at in (
        ("away", "a", "s3a://lake/drills"),
        ("bucket", "b", "s3a://lake"),
        ("inside", "b", "s3a://lake/b/drills"),
        ("beside", "b", "s3a://lake/beside"),
    ):
        text = f"name: {name}\nstream: {stream}\nfault: {{kind: kill_driver}}\nfork: {{at: '{at}'}}\n"
        cli.project.write(f"config/drills/{name}.yaml", text)
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "the stream has neither its checkpoint nor its output in an object store" in answer.out
    assert "away.yaml: fork" in answer.out
    assert "s3a://BUCKET/FOLDER" in answer.out
    assert "that is in s3a://lake/b of the stream b" in answer.out
    assert "✓ drill beside" in answer.out


def test_a_broken_notifications_file_is_reported(cli: CommandLine) -> None:
    cli.project.write("config/notifications.yaml", "resend_interval: soon\n")
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "config/notifications.yaml:1: resend_interval" in answer.out


def test_a_broken_thresholds_file_is_reported(cli: CommandLine) -> None:
    cli.project.write("config/thresholds.yaml", "state_size: {warning: big}\n")
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "config/thresholds.yaml:1: state_size.warning" in answer.out


def test_validating_writes_nothing(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli("validate")
    assert not cli.project.data.exists()


def test_a_job_that_is_no_python_is_2(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.write("spark_jobs/job.py", "rows = (\n")
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "✗ stream a" in answer.out
    assert "it cannot be parsed" in answer.out
    assert "job.py" in answer.out


def test_a_script_with_two_queries_is_valid_and_counted(cli: CommandLine) -> None:
    cli.project.stream("a")
    start = "rows.writeStream.format('parquet').start()\n"
    cli.project.write("spark_jobs/job.py", f"rows = spark.readStream.json('input/a')\n{start}{start}")
    answer = cli("validate")
    assert answer.code == Exit.OK
    assert "stream a (2 queries)" in answer.out
    assert "SW111" in answer.out


WORDS = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.text("{source}")
query = lines.writeStream.option("checkpointLocation", "{checkpoint}").start("{output}")
query.awaitTermination()
"""


def test_a_script_and_its_file_name_the_same_relative_places(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.write(
        "spark_jobs/job.py", WORDS.format(source="input/a", checkpoint="checkpoints/a", output="output/a")
    )
    answer = cli("validate")
    assert (answer.code, "✓ stream a" in answer.out) == (Exit.OK, True), answer


def test_a_script_that_contradicts_its_file_is_reported_with_all_values(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.write("spark_jobs/job.py", WORDS.format(source="in", checkpoint="cp", output="out"))
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    for kind, named, declared in (
        ("checkpoint", "cp", "checkpoints/a"),
        ("output folder", "out", "output/a"),
        ("input folder", "in", "input/a"),
    ):
        observed = f"the script names the {kind} {cli.project.data / named}; "
        assert observed in answer.out
        assert f"expected the {kind} that the stream's file declares, {cli.project.data / declared}" in answer.out
    assert "job.py" in answer.out
    assert "SW112" in cli("lint", "a").out
    refused = cli("start", "a")
    assert refused.code == Exit.USAGE, "nothing is launched"
    assert "the script names the checkpoint" in refused.err
    assert cli.store().drivers.latest("a") is None


def test_a_trigger_that_only_one_of_them_names_is_no_contradiction(cli: CommandLine) -> None:
    path = cli.project.stream("a")
    text = WORDS.format(source="input/a", checkpoint="checkpoints/a", output="output/a")
    named = text.replace(".option(", ".trigger(processingTime='2 seconds').option(", 1)
    cli.project.write("spark_jobs/job.py", named)
    assert cli("validate").code == Exit.OK
    cli.project.write("spark_jobs/job.py", named.replace("2 seconds", "10 seconds"))
    assert cli("validate").code == Exit.OK
    path.write_text(path.read_text() + "trigger: {processing_time: 2 seconds}\n")
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "the script names the trigger processing_time: 10.0 s" in answer.out
    assert "declares, processing_time: 2.0 s" in answer.out
    cli.project.write("spark_jobs/job.py", text)
    assert cli("validate").code == Exit.OK


def test_a_quarantine_that_the_job_does_not_use_is_reported(cli: CommandLine) -> None:
    cli.project.stream("a", "quarantine: quarantine/a\n")
    answer = cli("validate")
    assert answer.code == Exit.OK
    assert "SW113 warning: the file declares the quarantine" in answer.out


def test_a_script_may_leave_out_source_and_sink_and_a_job_with_build_may_not(cli: CommandLine) -> None:
    path = cli.project.stream("a")
    path.write_text("name: a\njob: spark_jobs/job.py\ncheckpoint: checkpoints/a\n")
    cli.project.write("spark_jobs/job.py", WORDS.format(source="in", checkpoint="checkpoints/a", output="out"))
    assert cli("validate").code == Exit.OK
    cli.project.write("spark_jobs/job.py", "def build(spark, spec): ...\n")
    assert "source.path: the required key is missing" in cli("validate").out


LIVE = """\
name: kill
stream: {stream}
fault: {fault}
target: production
production: {{allowed_hours: {{start: "09:00", end: "16:00"}}}}
"""


def test_drill_on_a_live_stream_is_checked_for_its_allowed_faults(cli: CommandLine) -> None:
    """It needs neither an oracle nor a fork. Negative control: a fault that removes data is refused, in four parts."""
    cli.project.stream("a")
    cli.project.write("config/drills/kill.yaml", LIVE.format(stream="a", fault="{kind: kill_driver}"))
    assert "✓ drill kill" in cli("validate").out
    cli.project.write("config/drills/kill.yaml", LIVE.format(stream="a", fault="{kind: input_gone}"))
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    for part in (
        "config/drills/kill.yaml: fault",
        "input_gone may not hit the live stream a, because it takes away an input file of the stream",
        "expected a fault that may hit a live stream",
        "next: remove `target: production` to drill a fork",
    ):
        assert part in answer.out


def test_a_drill_on_a_live_stream_that_no_audit_can_read_is_refused(cli: CommandLine) -> None:
    cli.project.write("spark_jobs/script.py", "spark.readStream\n")
    cli.project.write("config/streams/s.yaml", "name: s\njob: spark_jobs/script.py\ncheckpoint: checkpoints/s\n")
    cli.project.write("config/drills/kill.yaml", LIVE.format(stream="s", fault="{kind: kill_driver}"))
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "no drill can judge s: the job opens its source or its sink itself" in answer.out


def test_a_drill_on_a_live_stream_of_a_group_is_refused(cli: CommandLine) -> None:
    """Its fault would hit the neighbours. The fork of a drill has a JVM of its own."""
    cli.project.stream("a", "group: small")
    cli.project.write("config/drills/kill.yaml", LIVE.format(stream="a", fault="{kind: kill_driver}"))
    answer = cli("validate")
    assert answer.code == Exit.USAGE
    assert "a is a stream of the group small, whose streams share one JVM" in answer.out
    assert "next: remove `target: production`: the fork of a drill has a JVM of its own" in answer.out
