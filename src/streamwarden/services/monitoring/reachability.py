"""Asks the services that streams need, through their own clients, whether a broker or a database answers.

One evaluation asks each connection once, however many streams use it, and reuses the answer.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from streamwarden.adapters.connections import connection
from streamwarden.errors import ConfigError
from streamwarden.health.signals.services import Need
from streamwarden.health.window import Answer, Service

ANSWERS_WITHIN: Final = 5.0
"""Seconds within which an available service answers. An open port is not an answer: a server may hang."""

SLOW_AFTER: Final = 3
"""After this many unanswered requests for offsets in one evaluation, the broker is not asked for other streams."""

ADDRESS_LIMIT: Final = 200
"""Characters of a list of hosts that are stored with each measurement."""


class Services:
    """The answers of the services within one evaluation. Threads may share it: the first one asks, the others wait."""

    def __init__(self, *, within: float = ANSWERS_WITHIN) -> None:
        self._within = within
        self._lock = threading.Lock()
        self._asked: dict[Need, Future[Answer]] = {}
        self._slow: dict[str, int] = {}

    def answer(self, need: Need) -> Answer:
        """Never raises: if a service cannot be asked, the answer says why."""
        with self._lock:
            is_first = need not in self._asked
            future = self._asked.setdefault(need, Future())
        if is_first:
            future.set_result(_ask(need, self._within))
        return future.result()

    def was_slow(self, name: str) -> None:
        """Record that the broker of the connection answered, but not the request for the offsets of a stream."""
        with self._lock:
            self._slow[name] = self._slow.get(name, 0) + 1

    def is_slow(self, name: str) -> bool:
        """Whether `SLOW_AFTER` streams were slow, so that the next one is expected to be."""
        with self._lock:
            return self._slow.get(name, 0) >= SLOW_AFTER


def _ask(need: Need, within: float) -> Answer:
    try:
        return _ASKING[need.service](need.connection, within)
    except ConfigError as error:
        return _answer(need.service, need.connection, "an unknown address", None, error.observed)
    except Exception as error:  # a defect of a client library must not end the evaluation of all streams
        return _answer(need.service, need.connection, "an unknown address", None, f"{type(error).__name__}: {error}")


def ask_broker(name: str, within: float) -> Answer:
    """Ask for the cluster's brokers, which costs the same for any number of topics. Raises ConfigError."""
    from confluent_kafka import KafkaError, KafkaException

    from streamwarden.adapters.kafka.brokers import client_settings, reader, unreachable

    settings = connection(name)
    address = client_settings(settings)["bootstrap.servers"]
    errors: list[KafkaError] = []
    # Before the check whether it is down: settings that the client refuses are the first problem.
    client = reader(settings, "reach", error_cb=errors.append)
    try:
        down = unreachable(settings)
        if down is not None:
            return _answer(Service.BROKER, name, address, False, down)
        client.list_topics("__consumer_offsets", timeout=within)
    except KafkaException as error:
        # The reason of a failed connection arrives as an event: the call only reports that no broker answered.
        client.poll(0)
        refused = [reason for reason in errors if reason.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)]
        problem = (refused or errors or [error.args[0]])[0].str()
        return _answer(Service.BROKER, name, address, None if refused else False, problem)
    finally:
        client.close()
    return _answer(Service.BROKER, name, address, True)


def ask_database(name: str, within: float) -> Answer:
    """Open a session and end it. Raises ConfigError."""
    import psycopg

    from streamwarden.adapters.postgresql.access import access, passes

    parameters: Mapping[str, Any] = {**access(name).parameters, "connect_timeout": max(2, round(within))}
    address = _places(str(parameters.get("host") or "localhost"), str(parameters.get("port") or 5432))
    try:
        with psycopg.connect(**parameters, application_name="streamwarden-check") as session:
            session.execute("SELECT 1")
    except psycopg.Error as error:
        return _answer(Service.DATABASE, name, address, False if passes(error) else None, " ".join(str(error).split()))
    return _answer(Service.DATABASE, name, address, True)


def _places(hosts: str, ports: str) -> str:
    """`one:5432,two:5433`, from the two lists that PostgreSQL's client library takes; one port may be for all."""
    names, numbers = hosts.split(","), ports.split(",")
    return ",".join(f"{name}:{numbers[index % len(numbers)]}" for index, name in enumerate(names))


def _answer(service: Service, name: str, address: str, reached: bool | None, problem: str = "") -> Answer:
    return Answer(service=service, connection=name, address=address[:ADDRESS_LIMIT], reached=reached, problem=problem)


_ASKING: Final[Mapping[Service, Callable[[str, float], Answer]]] = {
    Service.BROKER: ask_broker,
    Service.DATABASE: ask_database,
}
