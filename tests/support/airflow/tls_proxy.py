"""A real nginx that ends TLS and serves Airflow under a path, as Airflow's documentation sets one up."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.servers.programs import program

_CONFIGURATION = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {folder}/certificate.pem; ssl_certificate_key {folder}/key.pem;
        location {path}/ {{
            proxy_pass http://127.0.0.1:{upstream};
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-Proto https;
            proxy_redirect off;
            proxy_http_version 1.1;
        }}
    }}
}}
"""


@contextmanager
def tls_proxy(folder: Path, *, port: int, upstream: int, path: str) -> Iterator[None]:
    """nginx on `port` with a certificate of its own for 127.0.0.1; what is below `path` goes to the port `upstream`.

    Raises FileNotFoundError if nginx is not installed.
    """
    folder.mkdir(parents=True)
    certify = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run([*certify.split(), *files], check=True, capture_output=True, timeout=60)
    text = _CONFIGURATION.format(folder=folder, port=port, upstream=upstream, path=path)
    (folder / "nginx.conf").write_text(text)
    command = [program("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    nginx = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        nginx.terminate()
        nginx.wait(timeout=20)
