"""`--forks N`: run the tests in N processes that are forked after the collection, so that imports are paid once.

Each process takes a file of tests from a pipe, then the next one; those that took longest the last time come first, so
that short ones fill the end. Each report goes to the process that collected, so whatever judges or shows reports there
(`-x`, `--lf`, `--durations`, `--junitxml`) is as without this plugin. If a process dies, its test fails and another
process takes the rest of its file.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import traceback
import warnings
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

_SECONDS = "forks/seconds"
_NUMBER = struct.Struct("I")


class Forks:
    """Runs the tests of a session in `count` processes."""

    def __init__(self, config: pytest.Config, count: int) -> None:
        self._config, self._count = config, count
        self._known: dict[str, float] = config.cache.get(_SECONDS, {}) if config.cache else {}
        self._took: dict[str, float] = defaultdict(float)
        self._told = Told(config)
        config.pluginmanager.register(self._told)
        self._stop = mmap.mmap(-1, 1)
        self._processes: dict[Connection, tuple[int, int, deque[pytest.Item]]] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or self._config.option.collectonly:
            return None  # pytest itself says what to do
        assert threading.active_count() == 1, "an import started a thread, which a forked process would not have"
        files = [list(tests) for _, tests in groupby(session.items, key=lambda item: item.path)]
        self._files = sorted(files, key=lambda tests: -self._known.get(_file(tests[0].nodeid), 0.0))
        self._numbers, filling = os.pipe()
        os.write(filling, b"".join(map(_NUMBER.pack, range(len(files)))))
        os.close(filling)
        self._config._tmp_path_factory.getbasetemp()  # one for all
        try:
            self._run(session)
        finally:
            self._stop[0] = 1
            for process, _, _ in self._processes.values():
                os.waitpid(process, 0)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        if self._config.cache:
            self._config.cache.set(_SECONDS, {**self._known, **self._took})
        return True

    def _run(self, session: pytest.Session) -> None:
        for number in range(self._count):
            self._start(session, number, [])
        while self._processes:
            for connection in wait(list(self._processes)):
                assert isinstance(connection, Connection)
                try:
                    self._receive(connection, connection.recv())
                except EOFError:
                    self._ended(session, connection)
                if session.shouldfail or session.shouldstop:
                    self._stop[0] = 1

    def _start(self, session: pytest.Session, number: int, first: Sequence[pytest.Item]) -> None:
        receiving, sending = Pipe(duplex=False)
        process = os.fork()
        if process == 0:
            try:
                receiving.close()
                self._work(session, number, first, sending)
            except BaseException:
                self._config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        sending.close()
        self._processes[receiving] = (process, number, deque(first))

    def _work(self, session: pytest.Session, number: int, first: Sequence[pytest.Item], sending: Connection) -> None:
        capture = self._config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # into files that all processes share
        capture.start_global_capturing()
        folders = self._config._tmp_path_factory
        folders._basetemp = folders.getbasetemp() / f"process{number}"
        folders._basetemp.mkdir(exist_ok=True)
        self._told.to = sending
        try:
            for item, following in pairwise(chain(first, self._taken(sending), [None])):
                assert item is not None
                self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._stop[0]:
                    break
        finally:
            session._setupstate.teardown_exact(None)

    def _taken(self, sending: Connection) -> Iterator[pytest.Item]:
        """The tests of one file after another, until all are taken."""
        while number := os.read(self._numbers, _NUMBER.size):
            (file,) = _NUMBER.unpack(number)
            sending.send(file)
            yield from self._files[file]

    def _receive(self, connection: Connection, message: Any) -> None:
        """What a process tells: that it takes a file, a warning, or the reports of its next test."""
        _, _, tests = self._processes[connection]
        match message:
            case int():
                tests.extend(self._files[message])
            case dict():
                message["warning_message"] = warnings.WarningMessage(*message["warning_message"])
                self._config.hook.pytest_warning_recorded.call_historic(kwargs=message)
            case _:
                tests.popleft()
                for data in message:
                    report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
                    self._took[_file(report.nodeid)] += report.duration
                    self._config.hook.pytest_runtest_logreport(report=report)

    def _ended(self, session: pytest.Session, connection: Connection) -> None:
        process, number, tests = self._processes.pop(connection)
        _, status = os.waitpid(process, 0)
        ended = f"the process of this test ended with {os.waitstatus_to_exitcode(status)}"
        if self._stop[0]:
            return
        if tests:
            test = tests.popleft()
            report = pytest.TestReport(test.nodeid, test.location, {}, "failed", ended, "call")
            self._config.hook.pytest_runtest_logreport(report=report)
            self._start(session, number, tests)
        elif status:
            raise session.Interrupted(ended)


class Told:
    """Sends what pytest says of the tests, in a process that runs some."""

    def __init__(self, config: pytest.Config) -> None:
        self._all = bool(config.option.durations or config.option.xmlpath)
        self.to: Connection | None = None

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if self.to is None:
            return None
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        told = [report for report in reports if self._all or not report.passed or report.when == "call"]
        serialized = item.config.hook.pytest_report_to_serializable
        self.to.send([serialized(config=item.config, report=report) for report in told])
        return True

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: tuple[str, int, str] | None
    ) -> None:
        if self.to is not None:
            warning = warning_message
            fields = (warning.message, warning.category, warning.filename, warning.lineno)
            self.to.send({"warning_message": fields, "when": when, "nodeid": nodeid, "location": location})


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
