"""A small server that answers as Airflow's REST API does, for tests in which no Airflow runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs


@dataclass
class AirflowApi:
    """What the API knows, and what it was asked.

    Args:
        paused: DAG id -> whether it is paused.
        runs: id of a run -> when it was due, of the one DAG whose runs a test reads.
        account: login and password; None: every caller gets a token.
        busy: how many requests are yet answered with 500, as by an Airflow whose SQLite is locked for too long.
    """

    paused: dict[str, bool] = field(default_factory=dict)
    account: tuple[str, str] | None = None
    port: int = 0
    busy: int = 0
    notes: dict[str, str] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, method: str, path: str, body: dict[str, Any], token: str | None) -> tuple[int, dict[str, Any]]:
        if path == "/auth/token":
            given = (body.get("username"), body.get("password"))
            allowed = self.account is None if method == "GET" else given == self.account
            return (201, {"access_token": "secret"}) if allowed else (401, {})
        if token != "Bearer secret":
            return 401, {}
        if self.busy:
            self.busy -= 1
            return 500, {}
        if path.startswith("/api/v2/dags?"):
            pattern = parse_qs(path.partition("?")[2])["dag_id_pattern"][0]
            return 200, {"dags": [{"dag_id": dag_id} for dag_id in self.paused if pattern in dag_id]}
        dag_id, _, rest = path.removeprefix("/api/v2/dags/").partition("/")
        if dag_id not in self.paused:
            return 404, {}
        if rest.startswith("dagRuns?"):
            before = datetime.fromisoformat(parse_qs(rest.partition("?")[2])["run_after_lt"][0])
            due = sorted(run for run, at in self.runs.items() if datetime.fromisoformat(at) < before)
            return 200, {"dag_runs": [{"dag_run_id": run} for run in due[:100]]}
        if rest == "dagRuns":
            for run in body["actions"][0]["entities"]:
                del self.runs[run]
            return 200, {"delete": {"success": body["actions"][0]["entities"], "errors": []}}
        if rest:
            self.notes[rest] = body["note"]
        elif method == "PATCH":
            self.paused[dag_id] = body["is_paused"]
        return 200, {"dag_id": dag_id, "is_paused": self.paused[dag_id]}


@contextmanager
def serving(api: AirflowApi) -> Iterator[AirflowApi]:
    """The API on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            status, answer = api.answer(self.command, self.path, body, self.headers.get("Authorization"))
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = _serve  # noqa: N815  (http.server's names)

        def log_message(self, *_: Any) -> None:
            """Nothing: the tests' output stays readable."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        api.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
