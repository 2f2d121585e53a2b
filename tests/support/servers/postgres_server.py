"""A real PostgreSQL server for tests: its own data folder, a free port of the loopback, ended with the test run."""

from __future__ import annotations

import os
import pwd
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from support.airflow.harness import free_port

USER = "streamwarden"
FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name.split(".")[0]))
STARTS_WITHIN = 60.0


class PostgreSQL:
    """A running server. Databases are made and dropped through it."""

    def __init__(
        self, address: str, port: int, password: str, command: Sequence[str], folder: Path, who: Mapping[str, Any]
    ) -> None:
        self.address, self.port, self.password = address, port, password
        self._command, self._folder, self._who = command, folder, who
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://{USER}:{self.password}@{self.address}:{self.port}/{database}"

    def connection(self, database: str) -> str:
        """The database as an Airflow connection, for `AIRFLOW_CONN_NAME`."""
        return self.url(database).replace("+psycopg", "")

    def run(self, statement: str) -> None:
        """One statement outside of a transaction, as the server's owner."""
        engine = sa.create_engine(self.url(), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)

    def create(self, name: str, template: str = "template1") -> str:
        """A database like `template`, to which nobody may be connected; returns its URL."""
        self.run(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output, cwd=self._folder, **self._who)
        self.await_ready()

    @property
    def owner(self) -> tuple[int, int]:
        """User and group that the server runs as."""
        return self._who.get("user", os.geteuid()), self._who.get("group", os.getegid())

    def crash(self, database: str) -> None:
        """SIGKILL to each session of the database: the server cuts all others too, and recovers from its log."""
        engine = sa.create_engine(self.url(), poolclass=sa.NullPool)
        with engine.connect() as connection:
            asked = sa.text("SELECT pid FROM pg_stat_activity WHERE datname = :name")
            pids = list(connection.execute(asked, {"name": database}).scalars())
        assert pids, f"nobody is connected to {database}"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def commands(self) -> tuple[list[str], list[str]]:
        """With which its administrator ends it at once, as a crash would, and starts it again; the second may be
        repeated."""
        user = ["runuser", "-u", pwd.getpwuid(self._who["user"]).pw_name, "--"] if self._who else []
        control = shlex.join([*user, str(FOLDERS[-1] / "pg_ctl"), "-D", str(self._folder / "data")])
        start = f"{control} -l {self._folder}/log.again -o {shlex.quote(shlex.join(self._command[3:]))} start"
        down, up = f"{control} -m immediate stop", f"{control} status || {start}"
        return ["sh", "-c", f"cd {self._folder}; {down}"], ["sh", "-c", f"cd {self._folder}; {up}"]

    def await_ready(self) -> None:
        """Wait until it answers."""
        assert self._process is not None
        _await(self, self._process, self._folder / "log")

    def stop(self) -> None:
        """End the server as an administrator does who is in a hurry: sessions are cut, what was committed stays."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(timeout=10)
        elif (self._folder / "data/postmaster.pid").exists():  # started again by `commands`
            subprocess.run(self.commands()[0], check=True, stdout=subprocess.DEVNULL, cwd=self._folder)


@contextmanager
def running(address: str = "127.0.0.1") -> Iterator[PostgreSQL]:
    """Start a server that listens on `address`, wait until it answers, end it. It never runs as root, which it
    refuses."""
    assert FOLDERS, "PostgreSQL's server programs are not installed: apt-get install postgresql"
    programs = FOLDERS[-1]
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-postgresql-"))
    owner = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    who: dict[str, Any] = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
    password = secrets.token_hex(12)
    server: PostgreSQL | None = None
    try:
        secret = folder / "password"
        secret.write_text(password + "\n")
        if owner:
            for path in (folder, secret):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        data = folder / "data"
        command = [str(programs / "initdb"), "-D", str(data), "-U", USER, "--auth=scram-sha-256", "--no-sync"]
        command += [f"--pwfile={secret}", "--encoding=UTF8", "--locale=C.UTF-8"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **who)
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet scram-sha-256\n")
        port = free_port()
        settings = {
            "port": port,
            "listen_addresses": address,
            "unix_socket_directories": "",
            "max_connections": 60,
            "shared_buffers": "32MB",
            "fsync": "off",  # the server is thrown away; a crash of a client loses nothing all the same
        }
        command = [str(programs / "postgres"), "-D", str(data)]
        command += [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        server = PostgreSQL(address, port, password, command, folder, who)
        server.start()
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _await(server: PostgreSQL, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            server.run("SELECT 1")
            return
        except sa.exc.OperationalError:
            told = log.read_text(errors="replace")[-2000:]
            assert process.poll() is None, f"PostgreSQL ended: {told}"
            assert time.monotonic() < deadline, f"PostgreSQL does not answer: {told}"
            time.sleep(0.1)
