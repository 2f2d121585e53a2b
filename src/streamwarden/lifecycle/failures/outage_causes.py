"""The causes of failures that lie in a server: it does not answer, or lacks what the stream needs.

A restart may cure each of them, because an unavailable server comes back.
"""

from typing import Final

from streamwarden.lifecycle.failures.failure_patterns import KAFKA_ERRORS, S3A, Cause, Sign, classes, curable, words

_NO_CONNECTION: Final = (
    "java.net.ConnectException",
    "java.net.NoRouteToHostException",
    "java.net.SocketTimeoutException",
    "org.apache.hadoop.net.ConnectTimeoutException",
)


def _away(code: str, what: str, advice: str, *signs: Sign) -> Cause:
    """An unavailable server."""
    return curable(code, what, f"{advice}; the stream then continues where it stopped", *signs, outage=True)


MASTER_AWAY: Final = _away(
    "master_unavailable",
    "the Spark master does not answer",
    "bring the master back, or correct spark.master",
    *words(r"All masters are unresponsive"),
)
"""Spark's exception often says only that the context was stopped, so the driver probes the master itself too."""

FORGOTTEN: Final = "ApplicationForgotten"
"""Error class of a driver that ended because the master no longer knows its application."""

STOPPED: Final = "ApplicationEnded"
"""Error class of a driver whose SparkContext was stopped, and not by its job."""

APPLICATION_ENDED: Final = curable(
    "application_ended",
    "the cluster ended the application, or Spark stopped it",
    "find out who or what ended it: the cluster manager's page of the application (`yarn application -status …`, the "
    "Spark master's page, `kubectl get events`) and driver.log. If a person killed it to end the stream: `streamwarden "
    "stop` keeps it stopped, a killed application is started again",
    *classes(STOPPED),
    *words(r"Master removed our application"),
)
"""Spark's exceptions do not say why a context was stopped, and an idle query raises none: the driver asks the context.
"""

CONTAINER_LOST: Final = "ContainerLost"
"""Error class of a driver in cluster mode that ended without a word of its own."""

GROUP_ENDED: Final = "GroupEnded"
"""Error class of a driver that ended because the JVM of its group did."""

API_SERVER_AWAY: Final = _away(
    "api_server_unavailable",
    "the API server of Kubernetes does not answer",
    "check that the cluster's API server runs and that spark.master names it",
    Sign(kind="java.io.IOException", client="io.fabric8.kubernetes"),
    *classes(*_NO_CONNECTION, client="io.fabric8.kubernetes"),
)

HOST_UNKNOWN: Final = _away(
    "host_unresolved",
    "the name of a host cannot be resolved",
    "check that the name server answers on the driver's host and that the host in the message is spelled correctly",
    *classes("java.net.UnknownHostException", "java.nio.channels.UnresolvedAddressException", "socket.gaierror"),
    *words(r"No resolvable bootstrap urls", r"UnknownHostException: "),
)

UNREACHABLE: Final = (
    HOST_UNKNOWN,
    MASTER_AWAY,
    curable(
        "application_unregistered",
        "the Spark master was restarted and no longer knows the application",
        "nothing to do: the next driver registers with the new master. Set spark.deploy.recoveryMode so that "
        "the master keeps its applications through a restart",
        *classes(FORGOTTEN),
    ),
    APPLICATION_ENDED,
    curable(
        "group_ended",
        "the JVM that the streams of the group share has ended",
        "nothing to do: each stream of the group is restarted by itself, in a new JVM. If it happens again, read "
        "driver.log in the group's folder: the streams share the memory of `spark.driver_memory`. A stream that "
        "endangers the others belongs in a group of its own",
        *classes(GROUP_ENDED),
    ),
    curable(
        "container_lost",
        "the driver's container was killed or lost, or its node went down",
        "nothing to do: the next driver is submitted. The log of the application and of its node say what ended it",
        *classes(CONTAINER_LOST),
    ),
    API_SERVER_AWAY,
    _away(
        "resource_manager_unavailable",
        "the ResourceManager of YARN does not answer",
        "check that the ResourceManager runs and that the driver host's Hadoop configuration names it",
        *classes(*_NO_CONNECTION, client="org.apache.hadoop.yarn"),
    ),
    _away(
        "namenode_unavailable",
        "the NameNode of HDFS does not answer",
        "check that the NameNode runs, is active and has left its safe mode",
        *classes(*_NO_CONNECTION, client="org.apache.hadoop.hdfs"),
        *classes("org.apache.hadoop.ipc.StandbyException"),
        *words(r"SafeModeException|org\.apache\.hadoop\.ipc\.StandbyException"),
    ),
    _away(
        "object_store_unavailable",
        "the object store does not answer",
        "check that the object store runs and that the connection's endpoint_url is correct",
        *classes("software.amazon.awssdk.core.exception.SdkClientException", f"{S3A}AWSClientIOException"),
        *words(
            r"(?:software\.amazon\.awssdk|s3a:)[\s\S]*(?:Unable to execute HTTP request|Connection refused"
            r"|UnknownHostException|ConnectTimeoutException|SocketTimeoutException|Status Code: 50[023]"
            r"|AWSClientIOException|ConnectException)"
        ),
    ),
    curable(
        "topic_missing",
        "the topic does not exist",
        "create the topic, or correct source.topic or sink.topic",
        *classes(f"{KAFKA_ERRORS}UnknownTopicOrPartitionException"),
        *words(r"Topic \S+ not present in metadata"),
    ),
    _away(
        "broker_unavailable",
        "the Kafka broker does not answer",
        "check that the broker runs and that the connection names its host and port",
        *classes(
            f"{KAFKA_ERRORS}TimeoutException",
            f"{KAFKA_ERRORS}DisconnectException",
            f"{KAFKA_ERRORS}BrokerNotAvailableException",
            f"{KAFKA_ERRORS}CoordinatorNotAvailableException",
        ),
        *words(
            r"Timed out waiting for a node assignment",
            r"Failed to (?:create new|construct) [Kk]afka",
        ),
    ),
    _away(
        "database_unavailable",
        "the database does not answer",
        "check that the database server runs and accepts connections",
        *classes(
            "java.sql.SQLTransientConnectionException",
            "java.sql.SQLNonTransientConnectionException",
            "psycopg.errors.ConnectionTimeout",
        ),
        Sign(kind="OperationalError", words=r"refused|timeout expired|closed the connection|(?:start|shutt)ing"),
        Sign(kind="org.postgresql.util.PSQLException", words=r"refused|connection attempt failed"),
        *classes(*_NO_CONNECTION, client="org.postgresql"),
        *classes(*_NO_CONNECTION, client="com.mysql"),
    ),
    curable(
        "jvm_gone",
        "the driver's JVM has ended",
        "read in driver.log what ended the JVM, and check the system's journal for the out-of-memory killer",
        *classes("py4j.protocol.Py4JNetworkError"),
    ),
    _away(
        "server_unavailable",
        "a server that the job calls does not answer",
        "check that the server that the message and driver.log name runs",
        *classes(
            *_NO_CONNECTION,
            "java.net.http.HttpConnectTimeoutException",
            "builtins.ConnectionError",
            "builtins.TimeoutError",
            "requests.exceptions.ConnectionError",
            "urllib.error.URLError",
        ),
    ),
)
