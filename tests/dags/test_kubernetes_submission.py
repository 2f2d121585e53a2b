"""What Spark's own Kubernetes client makes of a stream's settings: spark-submit runs for real, against an API server
that keeps what it is sent and runs nothing. One JVM, a few seconds."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamwarden.adapters.jvm.environments import own, spark_variables
from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.jvm.spark_home import spark_home
from streamwarden.airflow.cluster_mode import point_at
from streamwarden.clusters.kubernetes import pod_name
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.submission import cluster_environment, driver_properties, properties_text, submit_command
from streamwarden.services.fleet.launching.launch import RUNNER
from streamwarden.stream.spark import DeployMode, ExecutorsSpec, SparkSpec
from streamwarden.stream.spec import StreamSpec

pytestmark = pytest.mark.spark

SECRET = "spark.kubernetes.driver.secretKeyRef.AIRFLOW_CONN_BROKER"


@dataclass
class ApiServer:
    """Answers what a client sends with the same, as an API server does that has made it."""

    sent: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def __enter__(self) -> str:
        sent = self.sent

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def take(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or b"{}")
                sent.append((self.command, self.path, body))
                made = self.command in ("POST", "PATCH")
                if made:
                    body.setdefault("metadata", {})["uid"] = f"uid-{len(sent)}"
                else:
                    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
                text = json.dumps(body).encode()
                self.send_response(201 if made else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = take  # noqa: N815  (http.server's names)

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Submitted:
    server: ApiServer
    driver_id: str
    lines: list[str]

    @property
    def pod(self) -> dict[str, Any]:
        ((path, pod),) = [(path, body) for _, path, body in self.server.sent if body.get("kind") == "Pod"]
        assert path.startswith("/api/v1/namespaces/streams/pods")
        return pod

    @property
    def driver(self) -> dict[str, Any]:
        containers: list[dict[str, Any]] = self.pod["spec"]["containers"]
        return containers[0]


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitted]:
    folder = tmp_path_factory.mktemp("drivers") / "my_counts-20260102T030405-9f86d081"
    folder.mkdir()
    server = ApiServer()
    with server as url:
        spark = SparkSpec(
            master=f"k8s://{url}",
            deploy_mode=DeployMode.CLUSTER,
            driver_memory=2**30,
            executors=ExecutorsSpec(instances=2, memory=2**30),
            namespace="streams",
            image="registry.example/streamwarden:1",
            service_account="spark",
            conf={SECRET: "streams:broker"},
        )
        spec = StreamSpec(name="counts", job="/p/jobs/counts.py", checkpoint="s3a://b/cp", spark=spark)
        conf = driver_properties(spec, folder, python="/opt/venv/bin/python")
        conf |= cluster_environment(spec, {"STREAMWARDEN_DATA": "/d", "AIRFLOW_CONN_BROKER": "hush"}, secret=[])
        (folder / files.PROPERTIES).write_text(properties_text(conf))
        binary = str(spark_home() / "bin" / "spark-submit")
        submit = submit_command(spec, folder, runner=RUNNER, spark_submit=binary)
        hook = SimpleNamespace(_conf={"spark.kubernetes.submission.waitAppCompletion": "false"})
        operator = SimpleNamespace()
        point_at(operator, hook, folder, spec)  # type: ignore[arg-type]
        given = [part for key, value in hook._conf.items() for part in ("--conf", f"{key}={value}")]
        command = [*submit[:-2], *given, operator.application, *hook._application_args]
        done = subprocess.run(
            command, env=spark_variables(own(), find_java()), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        yield Submitted(server, folder.name, (done.stdout + done.stderr).splitlines())


def test_the_driver_gets_a_pod_of_the_streams_image_and_account(submitted: Submitted) -> None:
    assert submitted.driver["image"] == "registry.example/streamwarden:1"
    assert submitted.pod["spec"]["serviceAccountName"] == "spark"
    limit = submitted.driver["resources"]["limits"]["memory"]
    assert limit == "1433Mi", "1 GiB, and 40 % of it beside the heap, which is Spark's default for Python"


def test_the_pod_runs_the_runner_of_its_image_with_the_drivers_folder(submitted: Submitted) -> None:
    arguments = submitted.driver["args"]
    assert arguments[-2] == f"local://{RUNNER}"
    assert Path(arguments[-1]).name == submitted.driver_id


def test_the_pod_has_its_environment_and_the_secret_by_name_alone(submitted: Submitted) -> None:
    variables = {each["name"]: each for each in submitted.driver["env"]}
    assert variables["STREAMWARDEN_DATA"]["value"] == "/d"
    reference = variables["AIRFLOW_CONN_BROKER"]["valueFrom"]["secretKeyRef"]
    assert (reference["name"], reference["key"]) == ("streams", "broker")
    assert "hush" not in json.dumps(submitted.server.sent)


def test_the_settings_travel_to_the_pod(submitted: Submitted) -> None:
    maps = [body for _, _, body in submitted.server.sent if body.get("kind") == "ConfigMap"]
    texts = "\n".join(text for each in maps for text in each.get("data", {}).values())
    for line in ("spark.executor.instances=2", "spark.executor.memory=1024m", "spark.ui.enabled=true"):
        assert line in texts


def test_the_pod_announces_ports_that_kubernetes_accepts(submitted: Submitted) -> None:
    """A real API server refuses the port 0, which lets Spark choose a port on a host that many drivers share."""
    ports = [port["containerPort"] for port in submitted.driver["ports"]]
    assert ports
    assert all(0 < port < 65536 for port in ports)


def test_the_pod_has_the_name_by_which_the_provider_will_follow_it(submitted: Submitted) -> None:
    """What Spark says of it (`submission ID NAMESPACE:POD`) the provider reads in the namespace `spark` alone."""
    assert submitted.pod["metadata"]["name"] == pod_name(submitted.driver_id)
    assert any(f"submission ID streams:{pod_name(submitted.driver_id)}" in line for line in submitted.lines)
