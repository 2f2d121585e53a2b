"""A stream is one YAML file: what is accepted, and how each mistake is answered."""

import json
from pathlib import Path

import pytest

from streamwarden.clusters import UNKNOWN, manager_of
from streamwarden.config.stored_spec import spec_from_dict, spec_to_dict
from streamwarden.errors import ConfigError
from streamwarden.problems import ConfigFileError
from streamwarden.stream.spec import Backend, Budget, Encoding, OutputMode, StreamSpec
from support.streams.projects import Project

FULL = """
    name: everything
    job: spark_jobs/job.py
    description: counts things
    owner: ops
    tags: [demo, real]
    args: ["--fast"]
    source: {kind: files, path: input/e, format: json, max_files_per_trigger: 4, options: {multiLine: "true"}}
    sink: {kind: parquet, path: output/e, mode: append}
    checkpoint: checkpoints/e
    quarantine: quarantine/e
    trigger: {processing_time: 2 seconds, available_now: false}
    state: {backend: hdfs, changelog: false, shuffle_partitions: 8, ttl: 1 h, encoding: avro}
    restart: {initial: 30s, factor: 2, cap: 10m, budget: 5 per hour, healthy_after: 1h}
    stop: {batch_deadline: 1m, term_deadline: 250 ms}
    spark: {master: "local[1]", driver_memory: 1 GiB, conf: {spark.ui.enabled: "false"}}
"""

KAFKA = "source: {{kind: kafka, connection: {}}}"
TABLE = "sink: {{kind: postgresql, connection: c, table: {}}}"
TOPIC = "sink: {{kind: kafka, connection: c, topic: {}}}"


def test_every_key_is_read_and_quantities_are_read_as_people_write_them(project: Project) -> None:
    spec = project.load(project.write("config/streams/everything.yaml", FULL))
    assert spec.trigger.processing_time == 2.0
    assert spec.state.ttl == 3600.0
    assert (spec.state.backend, spec.state.encoding) == (Backend.HDFS, Encoding.AVRO)
    assert spec.restart.budget == Budget(count=5, per=3600.0)
    assert spec.restart.factor == 2.0
    assert spec.stop.term_deadline == 0.25
    assert spec.spark.driver_memory == 2**30
    assert spec.tags == ("demo", "real")
    assert (spec.sink.kind, spec.sink.mode) == ("parquet", OutputMode.APPEND)


def test_paths_become_absolute_job_below_the_project_and_the_rest_below_the_data_folder(project: Project) -> None:
    spec = project.load(project.write("config/streams/everything.yaml", FULL))
    assert spec.job == str(project.root / "spark_jobs/job.py")
    assert spec.source.path == str(project.data / "input/e")
    assert spec.sink.path == str(project.data / "output/e")
    assert spec.checkpoint == str(project.data / "checkpoints/e")
    assert spec.quarantine == str(project.data / "quarantine/e")
    assert spec.project == str(project.root)
    assert spec.file == str(project.root / "config/streams/everything.yaml")


def test_one_checkpoint_has_one_spelling_because_it_is_the_key_of_the_lease(project: Project) -> None:
    spellings = ["checkpoints/a/", "./checkpoints//a", "x/../checkpoints/a", f"file://{project.data}/checkpoints/a"]
    seen = set()
    for spelling in spellings:
        text = f"name: a\njob: spark_jobs/job.py\nsource: {{path: i}}\nsink: {{path: o}}\ncheckpoint: {spelling}\n"
        seen.add(project.load(project.write("config/streams/a.yaml", text)).checkpoint)
    assert seen == {str(project.data / "checkpoints/a")}


def test_urls_stay_urls(project: Project) -> None:
    text = "name: a\njob: spark_jobs/job.py\nsource: {path: i}\nsink: {path: o}\ncheckpoint: s3a://bucket//ckpt/a/\n"
    assert project.load(project.write("config/streams/a.yaml", text)).checkpoint == "s3a://bucket/ckpt/a"


@pytest.mark.parametrize("spelling", ["hdfs:/ckpt/a", "hdfs:///ckpt/a", "HDFS:///ckpt//a/"])
def test_a_url_without_a_host_keeps_its_path_whole(project: Project, spelling: str) -> None:
    text = f"name: a\njob: spark_jobs/job.py\nsource: {{path: i}}\nsink: {{path: o}}\ncheckpoint: {spelling}\n"
    assert project.load(project.write("config/streams/a.yaml", text)).checkpoint == "hdfs:///ckpt/a"


def test_what_is_shipped_is_found_below_the_project(project: Project) -> None:
    project.write("lib/helpers.py", "")
    project.write("env.tar.gz", "")
    shipped = "spark: {py_files: [lib/helpers.py, 'hdfs:///lib.zip'], archives: ['env.tar.gz#environment']}\n"
    spark = project.load(project.stream("a", shipped)).spark
    assert spark.py_files == (str(project.root / "lib/helpers.py"), "hdfs:///lib.zip")
    assert spark.archives == (f"{project.root / 'env.tar.gz'}#environment",)


@pytest.mark.parametrize(
    "line",
    [
        "spark: {master: yarn, deploy_mode: cluster, connection: c, executors: {instances: 2, memory: 4 GiB}}",
        "spark: {master: 'k8s://https://api:6443', image: 'sw:1', namespace: streams, service_account: spark}",
        "spark: {master: 'k8s://https://api', deploy_mode: cluster, conf: {spark.kubernetes.container.image: 'sw:1'}}",
        "spark: {master: 'spark://a:7077,b:7077', executors: {instances: 2, memory_overhead: 512 MiB}}",
    ],
)
def test_each_kind_of_cluster_has_its_keys(project: Project, line: str) -> None:
    assert manager_of(project.load(project.stream("a", line + "\n")).spark.master) is not UNKNOWN


def test_a_spec_survives_the_way_through_json(project: Project) -> None:
    spec = project.load(project.write("config/streams/everything.yaml", FULL))
    assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec


def test_a_stored_spec_that_fits_no_more_says_so() -> None:
    with pytest.raises(ConfigError, match=r"state\.color"):
        spec_from_dict({"name": "a", "job": "/j.py", "checkpoint": "/c", "state": {"color": "red"}})


@pytest.mark.parametrize(
    ("line", "key", "message"),
    [
        ("checkpiont: x", "checkpiont", "did you mean `checkpoint`?"),
        ("file: /etc/passwd", "file", "unknown key"),
        ("project: /", "project", "unknown key"),
        ("trigger: {processing_tme: 1s}", "trigger.processing_tme", "did you mean `processing_time`?"),
        ("trigger: {processing_time: 5 parsecs}", "trigger.processing_time", "30s, 2 seconds, 10m"),
        ("trigger: {processing_time: -5}", "trigger.processing_time", "a duration such as"),
        ("trigger: {processing_time: true}", "trigger.processing_time", "a duration such as"),
        ("trigger: 2s", "trigger", "expected a mapping of processing_time, available_now, real_time"),
        ("trigger: {available_now: yes}", "trigger.available_now", "expected true or false"),
        ("trigger: {available_now: 1}", "trigger.available_now", "expected true or false"),
        ("state: {shuffle_partitions: 0}", "state.shuffle_partitions", "at least 1"),
        ("state: {shuffle_partitions: 4.0}", "state.shuffle_partitions", "a whole number"),
        ("state: {shuffle_partitions: '4'}", "state.shuffle_partitions", "a whole number"),
        ("state: {backend: leveldb}", "state.backend", "'rocksdb', 'hdfs' or the full name of a provider's class"),
        ("state: {backend: 7}", "state.backend", "'rocksdb'"),
        ("state: {backend: [1]}", "state.backend: [1]", "'rocksdb'"),
        ("state: {backend: {a: 1}}", "state.backend: {'a': 1}", "'rocksdb'"),
        ("state: {ttl: 0s}", "state.ttl", "a positive duration"),
        ("restart: {budget: often}", "restart.budget", "5 per hour"),
        ("restart: {budget: 5 per 0s}", "restart.budget", "a positive span"),
        ("restart: {factor: 0.5}", "restart.factor", "at least 1"),
        ("audit: {share: 0}", "audit.share", "above 0 and at most 1"),
        ("savepoints: {keep: 0}", "savepoints.keep", "at least 1"),
        ("savepoints: {schedule: nightly}", "savepoints.schedule", "a cron expression or preset"),
        ("restart: {factor: .nan}", "restart.factor", "a finite number"),
        ("restart: {initial: 5m, cap: 1m}", "restart.cap", "at least `initial`"),
        ("stop: {batch_deadline: 0}", "stop.batch_deadline", "a positive duration"),
        ("spark: {driver_memory: 100 MB}", "spark.driver_memory", "Spark does not start with less"),
        ("spark: {driver_memory: much}", "spark.driver_memory", "512 MB, 5 GB"),
        ("spark: {conf: {spark.x: 1}}", "spark.conf.spark.x", 'put it in quotes: "1"'),
        ("spark: {conf: {spark.x: true}}", "spark.conf.spark.x", 'put it in quotes: "true"'),
        ("spark: {conf: {sql.shuffle: '1'}}", "spark.conf.sql.shuffle", "begins with spark."),
        ("spark: {master: ''}", "spark.master", "local[2]"),
        ("spark: {master: 'mesos://m:5050'}", "spark.master", "spark://HOST:PORT, yarn or k8s://"),
        ("spark: {master: yarn, deploy_mode: both}", "spark.deploy_mode", "'client' or 'cluster'"),
        ("spark: {deploy_mode: cluster}", "spark.deploy_mode", "a local master has no cluster"),
        ("spark: {master: 'spark://m:7077', deploy_mode: cluster}", "spark.deploy_mode", "cannot run a Python driver"),
        ("spark: {master: yarn, deploy_mode: cluster}", "spark.connection", "yarn_resourcemanager_webapp_address"),
        ("spark: {connection: a-b}", "spark.connection", "that matches"),
        ("spark: {queue: etl}", "spark.queue", "nothing: it is for `master: yarn`"),
        ("spark: {master: 'k8s://https://m', image: i, queue: etl}", "spark.queue", "it is for `master: yarn`"),
        ("spark: {master: 'k8s://https://m'}", "spark.image", "driver and executors run in its containers"),
        ("spark: {master: yarn, image: i}", "spark.image", "it is for `master: k8s://…`"),
        ("spark: {master: yarn, namespace: n}", "spark.namespace", "it is for `master: k8s://…`"),
        ("spark: {master: yarn, service_account: s}", "spark.service_account", "it is for `master: k8s://…`"),
        ("spark: {master: yarn, queue: ' '}", "spark.queue", "a name"),
        ("spark: {executors: {cores: 2}}", "spark.executors.cores", "with a local master the driver runs all tasks"),
        ("spark: {master: yarn, executors: {instances: 0}}", "spark.executors.instances", "at least 1"),
        ("spark: {master: yarn, executors: {memory: 100 MB}}", "spark.executors.memory", "does not start with less"),
        ("spark: {master: yarn, executors: {memory: 4}}", "spark.executors.memory", "does not start with less"),
        ("spark: {master: yarn, principal: me@REALM}", "spark.keytab", "both or none"),
        ("spark: {master: yarn, keytab: spark_jobs/job.py}", "spark.principal", "both or none"),
        ("spark: {principal: me, keytab: gone.keytab}", "spark.keytab", "there is no file"),
        ("spark: {py_files: [gone.zip]}", "spark.py_files[0]", "there is no file"),
        ("spark: {py_files: [spark_jobs/job.py, lib.txt]}", "spark.py_files[1]", "ends in .py, .zip, .egg"),
        ("spark: {archives: ['gone.tar.gz#env']}", "spark.archives[0]", "there is no file"),
        ("spark: {archives: [env]}", "spark.archives[0]", "ends in .zip, .tar.gz"),
        ("standby: hot", "standby", "'none' or 'warm'"),
        ("standby: warm\nspark: {master: yarn}", "standby", "only a stream with a local master"),
        ("standby: warm\ntrigger: {available_now: true}", "standby", "does not end by itself"),
        ("group: small\nstandby: warm", "standby", "a stream of its own for a warm standby"),
        ("group: a/b", "group", "a name that matches"),
        ("tags: [ok, 3]", "tags[1]", "expected text"),
        ("tags: demo", "tags", "expected a list"),
        ("description: 3", "description", "expected text"),
        ("quarantine: ''", "quarantine", "a path"),
        ("quarantine: ~/bad", "quarantine", "~ is not expanded"),
        ("quarantine: bad/*", "quarantine", "without * ?"),
        ("quarantine: s3a://b/../x", "quarantine", "a URL without .."),
        ("quarantine: s3a://bucket", "quarantine", "a location is never a whole bucket"),
        ("quarantine: s3a:///a/b", "quarantine", "s3a://BUCKET/FOLDER"),
        ("storage: {connection: lake}", "storage.connection", "no path of this stream begins with s3a://"),
        ("storage: {connection: a-b}\nquarantine: s3a://bucket/q", "storage.connection", "a connection's name"),
        ('quarantine: "a\\nb"', "quarantine", "control characters"),
        ("quarantine: drivers/x", "quarantine", "which Streamwarden itself writes to"),
        ("quarantine: .", "quarantine", "contains"),
    ],
)
def test_each_mistake_names_file_key_value_and_allowed_values(
    project: Project, line: str, key: str, message: str
) -> None:
    error = project.error(project.stream("a", line + "\n"))
    text = str(error)
    assert "config/streams/a.yaml" in text
    assert key in text
    assert message in text
    assert isinstance(error, ConfigFileError)
    assert all(problem.line for problem in error.problems)


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ("name: a", "name: b", "name", "the file's own name, 'a'"),
        ("name: a", "name: 7", "name", "expected text"),
        ("name: a\n", "", "name", "missing"),
        ("job: spark_jobs/job.py", "job: spark_jobs/gone.py", "job", "there is no file"),
        ("job: spark_jobs/job.py", "job: spark_jobs", "job", "a Python file"),
        ("job: spark_jobs/job.py\n", "", "job", "add `job: …`"),
        ("checkpoint: checkpoints/a\n", "", "checkpoint", "add `checkpoint: …`"),
        ("checkpoint: checkpoints/a", "checkpoint: output/a", "sink.path", "is also checkpoint"),
        ("checkpoint: checkpoints/a", "checkpoint: output/a/ckpt", "sink.path", "contains checkpoint"),
        ("checkpoint: checkpoints/a", "checkpoint: output", "sink.path", "is inside checkpoint"),
        ("checkpoint: checkpoints/a", "checkpoint: drills", "checkpoint", "Streamwarden itself writes to"),
        ("source: {path: input/a}", "source: {path: output/a/in}", "source.path", "is inside sink.path"),
        ("source: {path: input/a}", "source: {path: output/*/x}", "source.path", "contains sink.path"),
        ("source: {path: input/a}", "source: {format: json}", "source.path", "`kind: files` needs"),
        (
            "source: {path: input/a}",
            "source: {kind: pulsar}",
            "source.kind",
            "'iceberg', 'rate' or 'script'",
        ),
        ("source: {path: input/a}", "source: {kind: kafka, topic: t}", "source.connection", "missing"),
        ("source: {path: input/a}", "source: {kind: kafka, connection: c}", "source.topic", "missing"),
        ("source: {path: input/a}", "source: {path: in, topic: t}", "source.topic", "has no topic"),
        ("source: {path: input/a}", KAFKA.format("c-d, topic: t"), "source.connection", "that matches"),
        ("source: {path: input/a}", KAFKA.format("c, topic: a/b"), "source.topic", "a topic's name"),
        ("source: {path: input/a}", KAFKA.format("c, topic: t, path: p"), "source.path", "has no path"),
        ("source: {path: input/a}", KAFKA.format("c, topic: t, format: avro"), "source.format", "json"),
        ("source: {path: input/a}", KAFKA.format("c, topic: t, max_files_per_trigger: 2"), "max_files", "nothing"),
        ("source: {path: input/a}", "source: {path: in, max_offsets_per_trigger: 9}", "max_offsets", "nothing"),
        ("source: {path: input/a}", KAFKA.format("c, topic: t, max_offsets_per_trigger: 0"), "max_off", "at least"),
        ("sink: {path: output/a}", "sink: {kind: postgresql, connection: c}", "sink.table", "missing"),
        ("sink: {path: output/a}", "sink: {kind: postgresql, table: t}", "sink.connection", "missing"),
        ("sink: {path: output/a}", TABLE.format("a.b.c"), "sink.table", "`schema.table`"),
        ("sink: {path: output/a}", TABLE.format("'t; drop table x'"), "sink.table", "`schema.table`"),
        ("sink: {path: output/a}", TABLE.format("t, mode: update"), "sink.key", "replaces"),
        ("sink: {path: output/a}", TABLE.format("t, mode: complete"), "sink.mode", "append or update"),
        ("sink: {path: output/a}", TABLE.format("t, key: [x, x]"), "sink.key", "each column once"),
        ("sink: {path: output/a}", TABLE.format("t, options: {sslmode: require}"), "sink.options", "extra"),
        ("sink: {path: output/a}", "sink: {path: output/a, key: [x]}", "sink.key", "nothing"),
        ("sink: {path: output/a}", "sink: {path: output/a, topic: t}", "sink.topic", "has no topic"),
        ("sink: {path: output/a}", "sink: {kind: kafka, connection: c, key: [x]}", "sink.topic", "missing"),
        ("sink: {path: output/a}", "sink: {kind: kafka, topic: t, key: [x]}", "sink.connection", "missing"),
        ("sink: {path: output/a}", TOPIC.format("t, key: [x], path: p"), "sink.path", "has no path"),
        ("sink: {path: output/a}", TOPIC.format("a/b, key: [x]"), "sink.topic", "a topic's name"),
        ("sink: {path: output/a}", TOPIC.format("t"), "sink.key", "a part of its event id"),
        ("sink: {path: output/a}", TOPIC.format("t, key: [x, x]"), "sink.key", "each column once"),
        ("sink: {path: output/a}", TOPIC.format("t, key: [x], mode: complete"), "sink.mode", "append or update"),
        (
            "sink: {path: output/a}",
            TOPIC.format("t, key: [x], options: {Topic: u}"),
            "sink.options.Topic",
            "`sink.topic`",
        ),
        ("source: {path: input/a}", "source: {path: in, parts: [a, ../b]}", "source.parts[1]", "a folder's name"),
        ("source: {path: input/a}", "source: {path: in, parts: [a, a]}", "source.parts[1]", "each folder once"),
        ("source: {path: input/a}", "source: {path: in, kind: rate}", "source.path", "has no path"),
        ("sink: {path: output/a}", "sink: {kind: parquet}", "sink.path", "`kind: parquet` needs"),
        ("sink: {path: output/a}", "sink: {path: output/a, mode: update}", "sink.mode", "append"),
    ],
)
def test_a_wrong_value_of_a_needed_key_is_named(project: Project, old: str, new: str, key: str, message: str) -> None:
    path = project.stream("a")
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new))
    text = str(project.error(path))
    assert key in text
    assert message in text


def test_a_stream_may_write_to_another_topic_than_it_reads_and_not_to_that_one(project: Project) -> None:
    path = project.stream("a")
    given = path.read_text().replace("source: {path: input/a}", KAFKA.format("c, topic: events"))
    path.write_text(given.replace("sink: {path: output/a}", TOPIC.format("counts, key: [x], mode: update")))
    spec = project.load(path)
    assert (spec.sink.topic, spec.sink.mode, spec.connections) == ("counts", OutputMode.UPDATE, ("c",))
    assert spec_from_dict(spec_to_dict(spec)) == spec
    path.write_text(given.replace("sink: {path: output/a}", TOPIC.format("events, key: [x]")))
    assert "a stream that reads its own output never ends" in str(project.error(path))


def test_all_problems_of_the_types_come_in_one_error_and_then_all_of_the_rules(project: Project) -> None:
    """Nothing is concluded from a value of the wrong type, so the rules are checked once every type holds."""
    wrong = "color: red\ntrigger: {processing_time: soon}\nhealth: {thresholds: {state_size: {warning: big}}}\n"
    rules = "name: other\njob: gone.py\nsource: {path: i}\nsink: {path: o}\nstate: {shuffle_partitions: 0}\n"
    error = project.error(project.write("config/streams/a.yaml", rules + wrong))
    assert isinstance(error, ConfigFileError)
    found = {"checkpoint", "color", "trigger.processing_time", "health.thresholds.state_size.warning"}
    assert {problem.dotted for problem in error.problems} == found
    assert "4 problems" in str(error)
    error = project.error(project.write("config/streams/a.yaml", rules + "checkpoint: c\n"))
    assert isinstance(error, ConfigFileError)
    assert {problem.dotted for problem in error.problems} == {"job", "name", "state.shuffle_partitions"}
    assert "3 problems" in str(error)


def test_from_a_key_that_is_missing_nothing_else_is_concluded(project: Project) -> None:
    path = project.stream("a")
    path.write_text(path.read_text().replace("checkpoint: checkpoints/a\n", ""))
    error = project.error(path)
    assert isinstance(error, ConfigFileError)
    assert [problem.dotted for problem in error.problems] == ["checkpoint"]


@pytest.mark.parametrize("name", ["A", "1a", "a-b", "a.b", "../a", "a b", "", "ä", "a" * 64, "a__fork"])
def test_names_that_are_no_safe_path_are_refused(project: Project, name: str) -> None:
    path = project.stream("a")
    path.write_text(path.read_text().replace("name: a\n", f'name: "{name}"\n'))
    error = project.error(path)
    assert isinstance(error, ConfigFileError)
    assert [problem.dotted for problem in error.problems] == ["name"]


def test_a_checkpoint_reached_through_a_symbolic_link_is_seen_inside_the_output(project: Project) -> None:
    (project.data / "output/a").mkdir(parents=True)
    (project.data / "checkpoints").symlink_to(project.data / "output/a")
    assert "contains checkpoint" in str(project.error(project.stream("a")))


def test_the_error_survives_the_way_between_processes(project: Project) -> None:
    import pickle

    error = project.error(project.stream("a", "color: red\n"))
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)


def test_a_long_value_is_cut_in_the_message(project: Project) -> None:
    error = project.error(project.stream("a", f"trigger: {{processing_time: {'x' * 5000}}}\n"))
    assert len(str(error)) < 500


def test_a_stream_loads_without_any_of_its_folders(project: Project) -> None:
    spec = project.load(project.stream("a"))
    assert isinstance(spec, StreamSpec)
    assert not Path(spec.checkpoint).exists()
    assert not project.data.exists()


SCRIPT = """
    name: pair
    job: spark_jobs/job.py
    source: {{kind: script}}
    sink: {{kind: script}}
    checkpoint: checkpoints/pair
    queries: {queries}
"""


def test_a_wrong_path_of_the_job_is_the_only_problem_of_a_scripts_file(project: Project) -> None:
    """Whether the file has to declare a source and a sink depends on the job, and there is none."""
    words = "name: words\njob: jobs/words.py\ncheckpoint: checkpoints/words\n"
    error = project.error(project.write("config/streams/words.yaml", words))
    assert isinstance(error, ConfigFileError)
    assert [problem.dotted for problem in error.problems] == ["job"]
    assert "there is no file" in str(error)


def pair(project: Project, queries: str) -> Path:
    return project.write("config/streams/pair.yaml", SCRIPT.format(queries=queries))


def test_queries_have_names_and_may_have_checkpoints_in_the_streams_own(project: Project) -> None:
    spec = project.load(pair(project, "{left: checkpoints/pair/left, right: null, third: s3a://bucket/third}"))
    home = project.data / "checkpoints/pair"
    assert spec.queries == {"left": str(home / "left"), "right": None, "third": "s3a://bucket/third"}
    assert spec.checkpoints == (str(home), str(home / "left"), "s3a://bucket/third")
    assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec


@pytest.mark.parametrize(
    ("queries", "key"),
    [
        ("{By: checkpoints/pair/x}", "queries.By"),
        ("{'../x': checkpoints/pair/x}", "queries"),
        ("{left: checkpoints/x, right: checkpoints/x}", "queries.right"),
        ("{left: checkpoints/x, right: checkpoints/x/y}", "queries.right"),
        ("{left: checkpoints}", "queries.left"),
        ("{left: ' checkpoints/x'}", "queries.left"),
        ("{left: drivers/x}", "queries.left"),
        ("[left, right]", "queries"),
        ("{left: 5}", "queries.left"),
    ],
)
def test_queries_that_cannot_be_are_refused(project: Project, queries: str, key: str) -> None:
    error = project.error(pair(project, queries))
    assert isinstance(error, ConfigFileError)
    assert any(problem.dotted.startswith(key) for problem in error.problems), error


def test_a_query_may_have_the_checkpoint_of_the_stream(project: Project) -> None:
    assert project.load(pair(project, "{left: checkpoints/pair}")).checkpoints == (
        str(project.data / "checkpoints/pair"),
    )


def test_two_streams_cannot_share_the_checkpoint_of_a_query(project: Project) -> None:
    pair(project, "{left: checkpoints/left}")
    project.stream("left")
    assert sorted(project.catalog().broken) == ["left", "pair"]


REMOTE = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("clicks").remote("sc://localhost").getOrCreate()
spark.readStream.json("input").writeStream.start("output")
"""

PIPELINE = """
from pyspark import pipelines as dp

@dp.table
def events():
    return spark.readStream.json("input")
"""


@pytest.mark.parametrize(
    ("job", "said"),
    [(REMOTE, "Spark Connect (`builder.remote`) in line 4"), (PIPELINE, "`pyspark.pipelines`) in line 2")],
)
def test_a_job_whose_spark_is_elsewhere_is_refused(project: Project, job: str, said: str) -> None:
    path = pair(project, "{left: checkpoints/pair/left}")
    project.write("spark_jobs/job.py", job)
    error = project.error(path)
    assert isinstance(error, ConfigFileError)
    assert [problem.dotted for problem in error.problems] == ["job"]
    assert said in str(error)
    project.write("spark_jobs/job.py", REMOTE.replace('.remote("sc://localhost")', ""))
    project.load(path)
