"""A web server on this machine that keeps what it is sent: as a web hook, and as a dead man's switch."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Inbox:
    """Keeps the JSON of each POST in `messages` and the path of each GET in `visits`.

    Answers with `status`, and a GET with the JSON of `document`.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.visits: list[str] = []
        self.document: object = {}
        self.status = 200
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if inbox.status == 200:
                    inbox.messages.append(json.loads(body))
                self.send_response(inbox.status)
                self.end_headers()

            def do_GET(self) -> None:
                inbox.visits.append(self.path)
                self.send_response(inbox.status)
                self.end_headers()
                self.wfile.write(json.dumps(inbox.document).encode())

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.port = self._server.server_port
        self.http = f"http://127.0.0.1:{self.port}"
        self.url = f"json://user:s3cret@127.0.0.1:{self.port}/hook"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
