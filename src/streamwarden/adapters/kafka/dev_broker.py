"""A Kafka broker of one node (KRaft) on the loopback interface, for development and for tests."""

import socket
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from streamwarden.errors import ProcessError, SourceError

FORMAT_WITHIN: Final = 180.0
"""Seconds in which Kafka lays out an empty folder; it takes about two."""

ANSWER_WITHIN: Final = 60.0
"""Seconds in which a broker that was just started must answer; it takes about five."""

_SETTINGS: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={protocol}://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocol}:{protocol}
inter.broker.listener.name={protocol}
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""

_CLUSTER: Final = "MDAwMDAwMDAwMDAwMDAwMA"
"""A cluster's id is any 16 bytes, in base64."""


def require_free(*ports: int) -> None:
    """Raises ProcessError if another program listens on one of the ports of the loopback interface."""
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker does: a port that rests is free
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise ProcessError(
                    f"the port {port} is in use",
                    expected="a free port for the broker, and the next one for its controller",
                    where=f"127.0.0.1:{port}",
                    next_step="name another one with --port, or stop the program that listens there",
                ) from error


def set_up(
    folder: Path,
    *,
    java_home: Path,
    jars: Iterable[Path],
    port: int,
    controller: int,
    protocol: str = "PLAINTEXT",
    settings: str = "",
    format_options: Sequence[str] = (),
) -> list[str]:
    """Write the broker's settings into `folder` and lay out its data if there is none; the command that runs it.

    Args:
        jars: Kafka and its dependencies.
        controller: port by which the node reaches itself as a controller; the same at each start.
        settings: more lines of `server.properties`.
        format_options: more options of Kafka's storage tool, such as `--add-scram`.

    Raises:
        ProcessError: the folder holds other data.
    """
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "server.properties"
    text = _SETTINGS.format(protocol=protocol, port=port, controller=controller, data=folder / "data")
    properties.write_text(text + settings)
    java = [str(java_home / "bin" / "java"), "-Xmx320m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    java += ["-cp", ":".join(map(str, jars))]
    tool = ["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", _CLUSTER, "-c", str(properties)]
    done = subprocess.run(
        [*java, *tool, *format_options], capture_output=True, text=True, timeout=FORMAT_WITHIN, check=False
    )
    if done.returncode != 0:
        raise ProcessError(
            f"Kafka could not lay out its data: {done.stderr.strip()[-2000:]}",
            expected="an empty folder, or one that this command made before",
            where=str(folder / "data"),
            next_step="name another folder, or remove this one if its records may go",
        )
    return [*java, "kafka.Kafka", str(properties)]


def create_topics(address: str, topics: Iterable[str], partitions: int) -> list[str]:
    """Create those of `topics` that do not exist; returns them.

    Args:
        address: of the broker, which may still be starting.

    Raises:
        SourceError: the broker does not answer within `ANSWER_WITHIN` seconds, or refuses a topic.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it does export it

    wanted = list(topics)
    if not wanted:
        return []
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        existing = admin.list_topics(timeout=ANSWER_WITHIN).topics
        missing = [name for name in wanted if name not in existing]
        made = admin.create_topics([NewTopic(name, partitions) for name in missing]) if missing else {}
        for creation in made.values():
            creation.result(timeout=ANSWER_WITHIN)
    except KafkaException as error:
        raise SourceError(
            f"the topics cannot be created: {error.args[0].str()}",
            expected="names of letters, digits, dots, underscores and hyphens, and a broker that answers",
            where=address,
            next_step="correct the name; if the broker does not answer, read its log",
        ) from error
    return missing
