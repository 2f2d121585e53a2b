"""The causes of failures that lie in a server: it does not answer, or lacks what the stream needs.

A restart may cure each of them, because an unavailable server comes back.
"""

from typing import Final

from streamwarden.lifecycle.failures.failure_patterns import KAFKA_ERRORS, S3A, Cause, Sign, classes, words

_NO_CONNECTION: Final = (
    "java.net.ConnectException",
    "java.net.NoRouteToHostException",
    "java.net.SocketTimeoutException",
    "org.apache.hadoop.net.ConnectTimeoutException",
)
_CONTINUES: Final = "the stream then continues where it stopped"

MASTER_AWAY: Final = Cause(
    code="master_unavailable",
    what="the Spark master does not answer",
    curable=True,
    outage=True,
    next_step=f"bring the master back, or correct spark.master; {_CONTINUES}",
    signs=words(r"All masters are unresponsive", r"Master removed our application"),
)
"""Spark's exception often says only that the context was stopped, so the driver probes the master itself too."""

FORGOTTEN: Final = "ApplicationForgotten"
"""Error class of a driver that ended because the master no longer knows its application."""

API_SERVER_AWAY: Final = Cause(
    code="api_server_unavailable",
    what="the API server of Kubernetes does not answer",
    curable=True,
    outage=True,
    next_step=f"check that the cluster's API server runs and that spark.master names it; {_CONTINUES}",
    signs=(
        Sign(kind="java.io.IOException", client="io.fabric8.kubernetes"),
        *classes(*_NO_CONNECTION, client="io.fabric8.kubernetes"),
    ),
)

HOST_UNKNOWN: Final = Cause(
    code="host_unresolved",
    what="the name of a host cannot be resolved",
    curable=True,
    outage=True,
    next_step="check that the name server answers on the driver's host and that the host in the message is spelled "
    f"correctly; {_CONTINUES}",
    signs=(
        *classes("java.net.UnknownHostException", "java.nio.channels.UnresolvedAddressException", "socket.gaierror"),
        *words(r"No resolvable bootstrap urls", r"UnknownHostException: "),
    ),
)

UNREACHABLE: Final = (
    HOST_UNKNOWN,
    MASTER_AWAY,
    Cause(
        code="application_unregistered",
        what="the Spark master was restarted and no longer knows the application",
        curable=True,
        next_step="nothing to do: the next driver registers with the new master. Set spark.deploy.recoveryMode so that "
        "the master keeps its applications through a restart",
        signs=classes(FORGOTTEN),
    ),
    API_SERVER_AWAY,
    Cause(
        code="resource_manager_unavailable",
        what="the ResourceManager of YARN does not answer",
        curable=True,
        outage=True,
        next_step="check that the ResourceManager runs and that the driver host's Hadoop configuration names it; "
        f"{_CONTINUES}",
        signs=classes(*_NO_CONNECTION, client="org.apache.hadoop.yarn"),
    ),
    Cause(
        code="namenode_unavailable",
        what="the NameNode of HDFS does not answer",
        curable=True,
        outage=True,
        next_step=f"check that the NameNode runs, is active and has left its safe mode; {_CONTINUES}",
        signs=(
            *classes(*_NO_CONNECTION, client="org.apache.hadoop.hdfs"),
            *classes("org.apache.hadoop.ipc.StandbyException"),
            *words(r"SafeModeException|org\.apache\.hadoop\.ipc\.StandbyException"),
        ),
    ),
    Cause(
        code="object_store_unavailable",
        what="the object store does not answer",
        curable=True,
        outage=True,
        next_step=f"check that the object store runs and that the connection's endpoint_url is correct; {_CONTINUES}",
        signs=(
            *classes("software.amazon.awssdk.core.exception.SdkClientException", f"{S3A}AWSClientIOException"),
            *words(
                r"(?:software\.amazon\.awssdk|s3a:)[\s\S]*(?:Unable to execute HTTP request|Connection refused"
                r"|UnknownHostException|ConnectTimeoutException|SocketTimeoutException|Status Code: 50[023]"
                r"|AWSClientIOException|ConnectException)"
            ),
        ),
    ),
    Cause(
        code="topic_missing",
        what="the topic does not exist",
        curable=True,
        next_step="create the topic, or correct source.topic or sink.topic",
        signs=(
            *classes(f"{KAFKA_ERRORS}UnknownTopicOrPartitionException"),
            *words(r"Topic \S+ not present in metadata"),
        ),
    ),
    Cause(
        code="broker_unavailable",
        what="the Kafka broker does not answer",
        curable=True,
        outage=True,
        next_step=f"check that the broker runs and that the connection names its host and port; {_CONTINUES}",
        signs=(
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
    ),
    Cause(
        code="database_unavailable",
        what="the database does not answer",
        curable=True,
        outage=True,
        next_step=f"check that the database server runs and accepts connections; {_CONTINUES}",
        signs=(
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
    ),
    Cause(
        code="jvm_gone",
        what="the driver's JVM has ended",
        curable=True,
        next_step="read in driver.log what ended the JVM, and check the system's journal for the out-of-memory killer",
        signs=classes("py4j.protocol.Py4JNetworkError"),
    ),
    Cause(
        code="server_unavailable",
        what="a server that the job calls does not answer",
        curable=True,
        outage=True,
        next_step=f"check that the server that the message and driver.log name runs; {_CONTINUES}",
        signs=classes(
            *_NO_CONNECTION,
            "java.net.http.HttpConnectTimeoutException",
            "builtins.ConnectionError",
            "builtins.TimeoutError",
            "requests.exceptions.ConnectionError",
            "urllib.error.URLError",
        ),
    ),
)
