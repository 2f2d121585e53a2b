"""Secrets of every sort are planted, the product is used, and everything that it left behind is searched for them."""

from __future__ import annotations

import json
import os
import signal
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from streamwarden.adapters import processes
from streamwarden.cli.app import run
from streamwarden.health.incidents.consequences import IncidentGroup
from streamwarden.health.incidents.stream_incidents import open_incident
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.notifying.links import Links
from streamwarden.services.notifying.messages import compose
from streamwarden.services.workspace import Workspace
from support.spark.drivers import until
from support.streams.projects import Project

PLANTED: Final = {
    name: f"planted-{name}-4f1c"
    for name in ("conf", "jaas", "source", "sink", "flag", "assigned", "url", "description", "connection", "extra")
}
"""One secret of each sort: a setting, options, arguments, a URL's password, text for people, a connection."""

LAUNCHERS: Final = {
    "AIRFLOW__CORE__FERNET_KEY": "launchers-fernet-4f1c",
    "AIRFLOW__API_AUTH__JWT_SECRET": "launchers-jwt-4f1c",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://airflow:launchers-database-4f1c@db/airflow",
    "AIRFLOW_CONN_OTHER": "postgresql://ann:launchers-other-4f1c@db/flights",
    "AWS_SECRET_ACCESS_KEY": "launchers-aws-4f1c",
    "STREAMWARDEN_NOTIFY_URLS": "mailto://ann:launchers-notify-4f1c@example.com",
}
"""What the process that starts a driver has, and the driver must not get."""

STREAM: Final = f"""
    name: leaky
    job: spark_jobs/job.py
    description: "reads https://ann:{PLANTED["url"]}@host/x, password={PLANTED["description"]}"
    args: [--db-password, {PLANTED["flag"]}, --token={PLANTED["assigned"]}, --topic, flights]
    source: {{kind: kafka, connection: events, topic: flights, options: {{kafka.sasl.jaas.config: "{PLANTED["jaas"]}",
      kafka.ssl.key.password: {PLANTED["source"]}}}}}
    sink: {{path: output/leaky, options: {{secret_option: {PLANTED["sink"]}}}}}
    checkpoint: checkpoints/leaky
    stop: {{batch_deadline: 1 s, term_deadline: 1 s}}
    spark:
      conf: {{spark.jars: /jars/spark-sql-kafka.jar, spark.ssl.keyPassword: {PLANTED["conf"]}}}
      env: [OWN_VARIABLE]
"""
EVENTS: Final = json.dumps(
    {"conn_type": "kafka", "host": "127.0.0.1:1", "login": "ann", "password": PLANTED["connection"]}
    | {"extra": {"ssl.key.password": PLANTED["extra"]}}
)


@dataclass(frozen=True)
class Leaky:
    """A project whose stream is full of secrets, with a shell script in spark-submit's place."""

    project: Project
    space: Workspace

    def submit(self, script: str) -> list[str]:
        """It writes down what it was given, and then does `script`. $FOLDER is the driver's folder."""
        path = self.project.root / "submit.sh"
        seen = 'env >"$FOLDER/../../../../seen-environment"; cp "$FOLDER"/secrets.json "$FOLDER/../../../../seen-spec"'
        path.write_text(f'#!/bin/sh\nfor FOLDER in "$@"; do :; done\n{seen}\n{script}\n')
        path.chmod(0o755)
        return [str(path)]

    def leaks(self, *roots: Path) -> dict[str, list[str]]:
        """Secret -> the files below `roots` in which it stands."""
        found: dict[str, list[str]] = {}
        for path in (each for root in roots for each in root.rglob("*") if each.is_file()):
            content = path.read_bytes()
            for secret in PLANTED.values():
                if secret.encode() in content:
                    found.setdefault(secret, []).append(path.name)
        return found


@pytest.fixture
def leaky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Leaky]:
    for name, value in {**LAUNCHERS, "AIRFLOW_CONN_EVENTS": EVENTS, "OWN_VARIABLE": "mine"}.items():
        monkeypatch.setenv(name, value)
    for name in ("STREAMWARDEN_PROJECT", "STREAMWARDEN_DATA", "STREAMWARDEN_STORE_URL"):
        monkeypatch.delenv(name, raising=False)
    project = Project.make(tmp_path / "project")
    project.write("spark_jobs/job.py", "def build(spark, spec, *args): ...\n")
    project.write("config/streams/leaky.yaml", textwrap.dedent(STREAM))
    with Workspace.open(project.root, project.data, environ={}) as space:
        yield Leaky(project, space)
        for folder in (project.data / "drivers").glob("*/*"):
            process = files.read_process(folder)
            if process is not None:
                processes.signal_group(process, signal.SIGKILL)
                until("its end", lambda f=folder: (f / files.EXIT).exists())  # type: ignore[misc]


def test_a_driver_gets_its_own_secrets_and_none_of_its_launcher(leaky: Leaky) -> None:
    """Its own connection, what its file names, and what Spark needs."""
    spec = leaky.space.stream("leaky")
    leaky.space.fleet.start(spec, launched_by="ann", command=leaky.submit("exec sleep 60"))
    root = leaky.project.root
    until("the environment", lambda: (root / "seen-spec").exists())
    environment = (root / "seen-environment").read_text()
    assert [value for value in LAUNCHERS.values() if value in environment] == []
    assert EVENTS in environment
    assert "OWN_VARIABLE=mine" in environment
    assert f"PATH={os.environ['PATH']}" in environment
    document = json.loads((root / "seen-spec").read_text())
    assert document["args"][1] == PLANTED["flag"], "the driver works with the real value"
    assert document["source"]["options"]["kafka.sasl.jaas.config"] == PLANTED["jaas"]


def test_while_a_driver_runs_its_secrets_are_in_its_two_private_files_alone(leaky: Leaky) -> None:
    record = leaky.space.fleet.start(
        leaky.space.stream("leaky"), launched_by="ann", command=leaky.submit("exec sleep 60")
    ).record
    found = leaky.leaks(leaky.project.data)
    assert {name for names in found.values() for name in names} == {files.SECRETS, files.PROPERTIES}
    assert found[PLANTED["conf"]] == sorted([files.SECRETS, files.PROPERTIES])
    assert PLANTED["connection"] not in found
    for name in (files.SECRETS, files.PROPERTIES):
        assert Path(record.folder, name).stat().st_mode & 0o777 == 0o600
    arguments = [" ".join(each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])]
    assert [text for text in arguments for secret in PLANTED.values() if secret in text] == []


def test_after_a_driver_that_printed_everything_nothing_is_left_but_its_log(
    leaky: Leaky, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log is the job's own text, in a private file. What the product makes of it holds no secret."""
    words = " ".join(PLANTED.values())
    script = f'echo "java.lang.IllegalStateException: cannot log in with {words}"; exit 1'
    record = leaky.space.fleet.start(
        leaky.space.stream("leaky"), launched_by="ann", command=leaky.submit(script)
    ).record
    until("its end", lambda: not leaky.space.fleet.observe(record.driver_id).alive)
    until("that its secrets are removed", lambda: not Path(record.folder, files.SECRETS).exists())
    seen = leaky.space.fleet.observe(record.driver_id)
    assert seen.exit is not None
    assert seen.exit.kind is ExitKind.FAILED
    assert "IllegalStateException" in seen.exit.message
    open_incident(leaky.space.store.incidents, "leaky", seen.exit.message, f"password={PLANTED['conf']}", 5.0)
    (incident,) = leaky.space.store.incidents.open("leaky")
    notification = compose(IncidentGroup(incident), 10.0, Links())

    shown = [notification.title, notification.body]
    for command in COMMANDS:
        capsys.readouterr()
        run(["--project", str(leaky.project.root), "--data", str(leaky.project.data), *command])
        answer = capsys.readouterr()
        shown += [answer.out, answer.err]
    assert [text[:200] for text in shown for secret in PLANTED.values() if secret in text] == []
    names = {name for names in leaky.leaks(leaky.project.data).values() for name in names}
    assert names == {files.LOG}


COMMANDS: Final = (
    ("validate",),
    ("validate", "--json"),
    ("lint", "leaky"),
    ("lint", "leaky", "--json"),
    ("status",),
    ("status", "leaky"),
    ("status", "--json"),
    ("status", "leaky", "--json"),
    ("check", "leaky"),
    ("check", "leaky", "--json"),
    ("incidents",),
    ("incidents", "--json"),
    ("advise", "leaky"),
    ("advise", "leaky", "--json"),
    ("inspect", "leaky"),
    ("drill", "list", "--json"),
    ("housekeeping", "--json"),
)


def test_no_error_about_a_file_repeats_its_secrets(leaky: Leaky, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = f"conf: {{spark.my.token: [{PLANTED['jaas']}], spark.jars"
    broken = textwrap.dedent(STREAM).replace("conf: {spark.jars", wrong)
    leaky.project.write("config/streams/leaky.yaml", broken + f"passwrd: {PLANTED['conf']}\n")
    for command in (("validate",), ("validate", "--json"), ("start", "leaky"), ("status", "--json")):
        run(["--project", str(leaky.project.root), "--data", str(leaky.project.data), *command])
    answer = capsys.readouterr()
    assert "spark.my.token" in answer.out
    assert [secret for secret in PLANTED.values() if secret in answer.out + answer.err] == []


@pytest.mark.parametrize("umask", [0o000, 0o022], ids=oct)
def test_other_users_cannot_read_what_the_product_creates(leaky: Leaky, umask: int) -> None:
    """The data folder itself stays open: the output in it may be for other users."""
    before = os.umask(umask)
    try:
        record = leaky.space.fleet.start(
            leaky.space.stream("leaky"), launched_by="ann", command=leaky.submit("exit 0")
        ).record
        until("its end", lambda: not leaky.space.fleet.observe(record.driver_id).alive)
    finally:
        os.umask(before)
    data = leaky.project.data
    assert oct(data.stat().st_mode & 0o777) == oct(0o777 & ~umask)
    open_to_others = {
        str(path.relative_to(data)): oct(path.stat().st_mode & 0o777)
        for path in data.rglob("*")
        if path.stat().st_mode & 0o077
    }
    assert open_to_others == {}
