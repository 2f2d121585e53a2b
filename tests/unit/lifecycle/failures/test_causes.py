"""The table of causes: each row by each of its signs, through every sink; and that words of our own decide nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from streamwarden import errors
from streamwarden.lifecycle.failures.causes import CAUSES, cause_of
from streamwarden.lifecycle.failures.error_chain import Chain, ErrorLink, chain_of_text, of_java
from streamwarden.lifecycle.failures.exits import failure
from streamwarden.lifecycle.failures.failure_patterns import Cause, Sign


def shown(sign: Sign) -> ErrorLink:
    """A link that shows the sign; words are shown by the first of the alternatives that a person would write."""
    words = EXAMPLES.get(sign.words, sign.words)
    condition = sign.condition.strip("*").replace("*", "X") or None
    return ErrorLink(kind=sign.kind, message=words, condition=condition, frames=(f"{sign.client}.Client",))


EXAMPLES = {
    r"Partition \S+ offset was changed from \d+ to \d+": "Partition a-0 offset was changed from 9 to 3",
    r"Partitions [^\n]+ have been deleted": "Partitions Set(a-1) have been deleted",
    r"ConcurrentModificationException.*(?:log|batch)": "ConcurrentModificationException: the log",
    r"CertificateException|CertificateExpired": "CertificateExpired",
    r"bad_certificate|certificate_(?:required|unknown|expired)|handshake_failure": "alert: bad_certificate",
    r"s3a:[\s\S]*(?:AccessDenied|Status Code: 403)": "s3a://b/c (Service: S3, Status Code: 403)",
    r"InvalidAccessKeyId|SignatureDoesNotMatch|NoAuthWithAWSException|CredentialInitializationException": (
        "InvalidAccessKeyId"
    ),
    r"NoSuchBucket\b": "NoSuchBucket",
    r"code=40[13]\b": "Received status: Status(apiVersion=v1, code=403, reason=Forbidden)",
    r"Checksum error: .*/(?:metadata|offsets|commits|sources|state|_spark_metadata)": (
        "Checksum error: file:/checkpoint/offsets/7 at 0 exp: 1 got: 2"
    ),
    r"No FileSystem for scheme .?s3a": 'No FileSystem for scheme "s3a"',
    r"SafeModeException|org\.apache\.hadoop\.ipc\.StandbyException": "SafeModeException",
    r"(?:software\.amazon\.awssdk|s3a:)[\s\S]*(?:Unable to execute HTTP request|Connection refused"
    r"|UnknownHostException|ConnectTimeoutException|SocketTimeoutException|Status Code: 50[023]"
    r"|AWSClientIOException|ConnectException)": "getFileStatus on s3a://b: Unable to execute HTTP request",
    r"Topic \S+ not present in metadata": "Topic counts not present in metadata after 60000 ms.",
    r"Failed to (?:create new|construct) [Kk]afka": "Failed to create new KafkaAdminClient",
    r"refused|timeout expired|closed the connection|(?:start|shutt)ing": "connection refused",
    r"refused|connection attempt failed": "Connection to db:5432 refused",
    r"RocksDB .*(?:corrupt|Corruption)": "RocksDB said Corruption",
    r"batch \d+ doesn't exist": "batch 3 doesn't exist",
    r"does not exist.*(?:offsets|sources|commits)/\d+": "File does not exist: /c/offsets/3",
    r"sources? in the checkpoint offsets": "source in the checkpoint offsets",
    r"\bdelta\.\S*Concurrent\w+Exception": "io.delta.exceptions.ConcurrentAppendException: Files were added",
    r"ValidationException: (?:Found (?:new )?conflicting|Missing required files|Cannot commit, missing)": (
        "org.apache.iceberg.exceptions.ValidationException: Missing required files to delete: a.parquet"
    ),
    r"assertion failed: There are \[\d+\] sources": "assertion failed: There are [2] sources",
}
SIGNS = [(cause, sign) for cause in CAUSES for sign in cause.signs]


def rendered(link: ErrorLink) -> str:
    """The link as Java prints it."""
    condition = f"[{link.condition}] " if link.condition else ""
    frames = "".join(f"\n\tat {frame}.call(Client.java:1)" for frame in link.frames if frame[0] != ".")
    return f"{link.kind or 'org.apache.spark.SparkException'}: {condition}{link.message}{frames}"


def failed(cause: Chain) -> Chain:
    """As a query ends whose sink is one of Spark's own (parquet, a topic, memory …): the cause behind its exception."""
    return (
        ErrorLink(kind="org.apache.spark.sql.streaming.StreamingQueryException", condition="STREAM_FAILED"),
        *cause,
    )


def in_a_task(cause: Chain) -> Chain:
    """As it ends when a task failed, and its exception was not kept: its text stands in the job's message."""
    text = "".join(rendered(link) for link in cause)
    message = f"Job aborted due to stage failure: Lost task 0.0 in stage 1.0 (host executor 1): {text}"
    return failed(tuple(of_java("org.apache.spark.SparkException", message, None)))


def of_function(cause: Chain) -> Chain:
    """As it ends when a function of foreachBatch raised: behind Spark's exception comes what the function raised."""
    callback = ErrorLink(kind="py4j.Py4JException", message="An exception was raised by the Python Proxy.")
    function = ErrorLink(kind="org.apache.spark.SparkException", condition="FOREACH_BATCH_USER_FUNCTION_ERROR")
    raised = ErrorLink(kind="py4j.protocol.Py4JJavaError")
    return failed((function, callback, raised, *cause))


SINKS: dict[str, Callable[[Chain], Chain]] = {"Spark's own": failed, "foreachBatch": of_function}


@pytest.mark.parametrize(("cause", "sign"), SIGNS, ids=[f"{c.what}: {s}"[:90] for c, s in SIGNS])
def test_each_sign_leads_to_the_same_decision_through_every_sink(cause: Cause, sign: Sign) -> None:
    """An earlier row may claim a sign that two rows share; the decision is then that row's, for every sink."""
    link = shown(sign)
    direct = cause_of((link,), started=not cause.before_start)
    assert direct is not None
    assert CAUSES.index(direct) <= CAUSES.index(cause)
    assert direct.curable is cause.curable, "a sign that an earlier row claims decides nothing else"
    for name, wrap in SINKS.items():
        assert cause_of(wrap((link,)), started=not cause.before_start) is direct, name


def is_said(sign: Sign) -> bool:
    """Whether a failed task's text shows the sign: there is no stack trace in it, and no exception of Python's."""
    python = sign.kind.split(".")[0] in ("builtins", "py4j", "requests", "urllib", "psycopg", "socket")
    named = "." in sign.kind and not sign.words and not python
    return not sign.client and (named or bool(sign.condition) or bool(sign.words and not sign.kind))


SAID = [(cause, sign) for cause, sign in SIGNS if is_said(sign)]


@pytest.mark.parametrize(("cause", "sign"), SAID, ids=[f"{c.what}: {s}"[:90] for c, s in SAID])
def test_a_task_whose_exception_was_not_kept_is_read_from_its_text(cause: Cause, sign: Sign) -> None:
    started = not cause.before_start
    assert cause_of(in_a_task((shown(sign),)), started=started) is cause_of((shown(sign),), started=started)


def test_every_row_can_be_reached() -> None:
    reached = {id(cause_of((shown(sign),), started=not cause.before_start)) for cause, sign in SIGNS}
    assert [cause.what for cause in CAUSES if id(cause) not in reached] == []


def test_what_passes_wins_over_the_damage_that_it_looks_like() -> None:
    """An object store that is away for a minute makes a state store unreadable for as long."""
    chain = (
        ErrorLink(kind="org.apache.spark.SparkException", condition="CANNOT_LOAD_STATE_STORE.UNCATEGORIZED"),
        ErrorLink(
            kind="java.net.ConnectException", message="getFileStatus on s3a://b/c: Unable to execute HTTP request"
        ),
        ErrorLink(
            kind="software.amazon.awssdk.core.exception.SdkClientException", message="Connect to 127.0.0.1:9 failed"
        ),
    )
    found = cause_of(chain)
    assert found is not None
    assert (found.what, found.curable) == ("the object store does not answer", True)


def test_script_that_exits_with_a_status_is_judged_by_its_hidden_error() -> None:
    status = ErrorLink(kind="streamwarden.errors.ScriptFailed", message="the script ended with status 1")
    hidden = ErrorLink(kind="org.apache.spark.SparkException", condition="CANNOT_LOAD_STATE_STORE.UNCATEGORIZED")
    assert cause_of((status,)) is None, "not known: a restart may help"
    found = cause_of((status, ErrorLink(kind="builtins.SystemExit"), hidden))
    assert found is not None
    assert not found.curable


@pytest.mark.parametrize("kind", [errors.SinkError, errors.ConfigError, errors.JobError, errors.StoreError])
def test_no_word_of_our_own_messages_decides(kind: type[errors.StreamwardenError]) -> None:
    """A message of ours may quote anything: the class alone counts."""
    loud = "No space left on device; KAFKA_DATA_LOSS; AnalysisException; java.net.UnknownHostException: db"
    name = f"streamwarden.errors.{kind.__name__}"
    assert cause_of((ErrorLink(kind=name, message=loud),)) is cause_of((ErrorLink(kind=name),))
    assert cause_of(chain_of_text(loud, kind.__name__)) is cause_of((ErrorLink(kind=name),))
    traceback = f'Traceback (most recent call last):\n  File "job.py", line 3, in each\n{name}: No space left on device'
    assert cause_of(tuple(of_java("py4j.Py4JException", traceback, None))) is cause_of((ErrorLink(kind=name),))


REFUSED = """io.fabric8.kubernetes.client.KubernetesClientException: An error has occurred.
\tat io.fabric8.kubernetes.client.KubernetesClientException.launderThrowable(KubernetesClientException.java:109)
\tat org.apache.spark.scheduler.cluster.k8s.KubernetesClusterSchedulerBackend.start(Kubernetes.scala:1)
Caused by: java.io.IOException: Connection refused: /127.0.0.1:1
\tat io.fabric8.kubernetes.client.dsl.internal.OperationSupport.waitForResult(OperationSupport.java:504)
\t... 20 more
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)"""
CALL = """java.net.ConnectException: Call From vm/127.0.0.1 to localhost:1 failed on connection exception: \
java.net.ConnectException: Connection refused; For more details see:  http://wiki.apache.org/hadoop/ConnectionRefused
\tat org.apache.hadoop.ipc.Client.call(Client.java:1529)
Caused by: java.net.ConnectException: Connection refused
\tat org.apache.hadoop.ipc.Client$Connection.setupConnection(Client.java:668)
\tat {client}.call(Client.java:1)"""


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (REFUSED, "the API server of Kubernetes"),
        (CALL.format(client="org.apache.hadoop.yarn.api.impl.pb.client.ApplicationClientProtocolPBClientImpl"), "YARN"),
        (CALL.format(client="org.apache.hadoop.hdfs.protocolPB.ClientNamenodeProtocolTranslatorPB"), "NameNode"),
        ("java.lang.IllegalArgumentException: java.net.UnknownHostException: no-such-host.invalid", "name of a host"),
        ("java.lang.IllegalStateException: x\nCaused by: java.net.UnknownHostException: nn", "name of a host"),
        ("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment", "broker"),
    ],
)
@pytest.mark.parametrize("built", [False, True])
def test_what_is_away_is_named_as_real_clients_say_it(text: str, what: str, built: bool) -> None:
    """Recorded from Spark 4.3 with a closed port for each service."""
    record = failure("STREAM_FAILED", text, at=1, cut_batch=None, built=built)
    assert record.curable
    assert what in record.message.partition(":")[0]
    assert record.next_step


TORN = """com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end-of-input in field name
\tat com.fasterxml.jackson.core.base.ParserMinimalBase._reportInvalidEOF(ParserMinimalBase.java:643)
\tat {reader}(OffsetSeqLog.scala:100)"""


@pytest.mark.parametrize(
    ("reader", "what"),
    [
        (
            "org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog.deserialize",
            "the checkpoint is damaged",
        ),
        ("org.apache.spark.sql.catalyst.json.JacksonParser.parse", None),
    ],
)
def test_a_torn_log_is_no_torn_record(reader: str, what: str | None) -> None:
    """The same exception of the same parser: what called it tells them apart."""
    found = cause_of(chain_of_text(TORN.format(reader=reader)))
    assert (found.what if found else None) == what


def test_a_code_names_one_cause_and_is_recorded() -> None:
    assert len({cause.code for cause in CAUSES}) == len(CAUSES)
    for cause in CAUSES:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", cause.code)
        chain = (shown(cause.signs[0]),)
        record, row = failure(None, "", at=1, cut_batch=None, built=False, chain=chain), cause_of(chain, started=False)
        assert row is not None
        assert record.cause == row.code


def test_next_steps_name_an_action() -> None:
    for cause in CAUSES:
        assert re.search(r"[a-z]", cause.next_step)
        assert cause.curable or not cause.outage, f"{cause.what}: what is away comes back"
