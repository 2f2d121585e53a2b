"""A real PostgreSQL server for tests: its own data folder, a free port of the loopback, ended with the test run."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from support.airflow_harness import free_port

USER = "streamwarden"
FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name.split(".")[0]))
STARTS_WITHIN = 60.0


class PostgreSQL:
    """A running server. Databases are made and dropped through it."""

    def __init__(self, port: int, password: str) -> None:
        self.port, self.password = port, password

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def run(self, statement: str) -> None:
        """One statement outside of a transaction, as the server's owner."""
        engine = sa.create_engine(self.url(), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)

    def create(self, name: str, template: str = "template1") -> str:
        """A database like `template`, to which nobody may be connected; returns its URL."""
        self.run(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)


@contextmanager
def running() -> Iterator[PostgreSQL]:
    """Start a server, wait until it answers, end it. It never runs as root: it refuses that."""
    assert FOLDERS, "PostgreSQL's server programs are not installed: apt-get install postgresql"
    programs = FOLDERS[-1]
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-postgresql-"))
    owner = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    who = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
    password = secrets.token_hex(12)
    process: subprocess.Popen[bytes] | None = None
    try:
        secret = folder / "password"
        secret.write_text(password + "\n")
        if owner:
            for path in (folder, secret):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        data = folder / "data"
        command = [str(programs / "initdb"), "-D", str(data), "-U", USER, "--auth=scram-sha-256", "--no-sync"]
        command += [f"--pwfile={secret}", "--encoding=UTF8", "--locale=C.UTF-8"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **who)  # type: ignore[call-overload]
        port = free_port()
        settings = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": 60,
            "shared_buffers": "32MB",
            "fsync": "off",  # the server is thrown away; a crash of a client loses nothing all the same
        }
        command = [str(programs / "postgres"), "-D", str(data)]
        command += [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **who)  # type: ignore[call-overload]
        server = PostgreSQL(port, password)
        _await(server, process, folder / "log")
        yield server
    finally:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)  # "fast": connections are cut
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=10)
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
