"""A real Kafka broker for tests (KRaft, one node): bounded heap, free ports of the loopback, ended with the tests."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from streamwarden.adapters import processes
from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.kafka.dev_broker import set_up
from support.airflow.harness import free_port
from support.servers.certificates import Authority

STARTS_WITHIN = 180.0
USER, PASSWORD = "streamwarden", "not-in-any-log"

SETTINGS = """
sasl.enabled.mechanisms={mechanism}
sasl.mechanism.inter.broker.protocol={mechanism}
log.retention.check.interval.ms=200
log.segment.delete.delay.ms=100
"""
PLAIN, SCRAM = "PLAIN", "SCRAM-SHA-512"
LOGIN = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="{user}" password="{password}" user_{user}="{password}";',
    SCRAM: 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{password}";',
}
ENCRYPTED = """
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.sasl_ssl.ssl.client.auth=required
"""


class Broker:
    """One broker and its data. It can be killed and started again on the same port.

    Args:
        secured: it wants a password.
        encrypted: it wants a password, proves who it is, and wants its clients to do so too.
        address: where its clients reach it.
    """

    def __init__(self, folder: Path, *, secured: bool, encrypted: bool, address: str = "127.0.0.1") -> None:
        self.folder = folder
        self._address = address
        self.protocol = "SASL_SSL" if encrypted else "SASL_PLAINTEXT" if secured else "PLAINTEXT"
        self._mechanism = SCRAM if encrypted else PLAIN
        self._certificates: dict[str, str] = {}
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        controller = free_port()
        text = SETTINGS.format(mechanism=self._mechanism)
        if address != "127.0.0.1":  # of two lines with one key the last is valid
            here = f"{self.protocol}://{address}:{self.port}"
            text += f"listeners={here},CONTROLLER://127.0.0.1:{controller}\nadvertised.listeners={here}\n"
        if self.protocol != "PLAINTEXT":
            name = f"listener.name.{self.protocol.lower()}.{self._mechanism.lower()}.sasl.jaas.config"
            text += f"{name}={LOGIN[self._mechanism].format(user=USER, password=PASSWORD)}\n"
        if encrypted:
            text += self._encryption()
        users = [f"{SCRAM}=[name={USER},password={PASSWORD}]"] if self._mechanism == SCRAM else []
        self._command = set_up(
            folder,
            java_home=find_java(),
            jars=maven.resolve(maven.KAFKA_BROKER),
            port=self.port,
            controller=controller,
            protocol=self.protocol,
            settings=text,
            format_options=[word for user in users for word in ("--add-scram", user)],
        )
        self._pid = folder / "pid"

    @property
    def servers(self) -> str:
        return f"{self._address}:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """Of a librdkafka client."""
        settings = {"bootstrap.servers": self.servers}
        if self.protocol != "PLAINTEXT":
            login = {"sasl.mechanism": self._mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
            settings |= {"security.protocol": self.protocol, **login, **self._certificates}
        return settings

    def _encryption(self) -> str:
        """Settings of the broker; the certificates of its clients are made with its own."""
        authority = Authority(self.folder / "certificates", "authority")
        certificate, key = authority.issue("broker")
        keystore = authority.folder / "keystore.pem"
        keystore.write_text(key.read_text() + certificate.read_text())
        mine, secret = authority.issue("client")
        self._certificates = {
            "ssl.ca.location": str(authority.certificate),
            "ssl.certificate.location": str(mine),
            "ssl.key.location": str(secret),
        }
        return ENCRYPTED.format(keystore=keystore, authority=authority.certificate)

    @property
    def connection(self) -> str:
        """As Airflow writes a connection."""
        return json.dumps({"conn_type": "kafka", "extra": self.settings})

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self.folder)
        self._pid.write_text(str(self._process.pid))
        deadline = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                self.admin().list_topics(timeout=1)
                return
            except KafkaException:
                told = (self.folder / "log").read_text(errors="replace")[-2000:]
                assert self._process.poll() is None, f"the broker ended: {told}"
                assert time.monotonic() < deadline, f"the broker does not answer: {told}"

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=20)
            self._process = None
        while (pid := self._started_by_others()) is not None:
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def commands(self) -> tuple[list[str], list[str]]:
        """With which anybody kills it (SIGKILL) and starts it again, as `docker compose kill` and `start` would."""
        runs = f"grep -q kafka.Kafka /proc/$(cat {self._pid})/cmdline"
        start = f"{shlex.join(self._command)} >>{self.folder}/log 2>&1 & echo $! >{self._pid}"
        return ["sh", "-c", f"kill -9 $(cat {self._pid})"], ["sh", "-c", f"{runs} || {{ {start}; }}"]

    def _started_by_others(self) -> int | None:
        pid = int(self._pid.read_text()) if self._pid.exists() else 0
        return pid if str(self.folder / "server.properties") in processes.commands().get(pid, []) else None

    def admin(self) -> AdminClient:
        return AdminClient({**self.settings, "log_level": 0})

    def create(self, topic: str, *, partitions: int = 1, **config: str) -> None:
        admin = self.admin()  # it has to live until the answer is there
        admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(timeout=60)

    def delete(self, topic: str) -> None:
        """And wait until it is gone."""
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(timeout=60)
        deadline = time.monotonic() + 20
        while topic in admin.list_topics(timeout=5).topics:
            assert time.monotonic() < deadline, f"{topic} is still there"

    def forget(self, topic: str, before: int, partition: int = 0) -> None:
        """Remove the records before the offset, as a retention does."""
        admin = self.admin()
        (done,) = admin.delete_records([TopicPartition(topic, partition, before)]).values()
        done.result(timeout=60)

    def ends(self, topic: str, partitions: int) -> list[int]:
        """The offset that the next record of each partition gets."""
        consumer = Consumer({**self.settings, "group.id": "test", "log_level": 0})
        try:
            places = [TopicPartition(topic, number) for number in range(partitions)]
            return [consumer.get_watermark_offsets(place, timeout=60)[1] for place in places]
        finally:
            consumer.close()

    def values(self, topic: str) -> Iterator[bytes]:
        """Of each record of partition 0 up to now."""
        (end,) = self.ends(topic, 1)
        consumer = Consumer({**self.settings, "group.id": "test", "log_level": 0})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            at = 0
            while at < end:
                message = consumer.poll(30)
                assert message is not None, "the broker does not answer"
                at = (message.offset() or 0) + 1
                yield message.value() or b""
        finally:
            consumer.close()

    def add_partitions(self, topic: str, total: int) -> None:
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(timeout=60)

    def produce(
        self, topic: str, values: Iterable[str | bytes | None], *, partitions: Sequence[int] = (0,), at: int = 0
    ) -> None:
        """All in order, taking turns between `partitions`; returns when the broker has them.

        Args:
            at: timestamp of the records, Unix milliseconds; 0: now.
        """
        producer = Producer({**self.settings, "log_level": 0, "linger.ms": 5})
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=partitions[number % len(partitions)], timestamp=at)
        assert producer.flush(30) == 0, "the broker did not take every record"


@contextmanager
def broker(*, secured: bool = False, encrypted: bool = False, address: str = "127.0.0.1") -> Iterator[Broker]:
    """A running broker, and the jars with which a driver reads it; ended, and its data removed, at the end."""
    maven.resolve(maven.POMS / "kafka.xml")
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-kafka-"))
    made = Broker(folder, secured=secured, encrypted=encrypted, address=address)
    try:
        made.start()
        yield made
    finally:
        made.kill()
        shutil.rmtree(folder, ignore_errors=True)
