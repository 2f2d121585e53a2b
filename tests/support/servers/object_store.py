"""A local object store with S3's interface for tests: moto's server on a free port, ended with them.

It checks signatures and permissions as S3 does: an unknown key or a wrong secret is refused, for every client.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import boto3

from streamwarden.adapters.jvm import maven
from support.airflow.harness import free_port

BUCKET, REGION = "streams", "eu-central-1"
STARTS_WITHIN = 60.0
_FREE = 4
"""Requests that are let through unchecked: those that make the user, the key, the permission and the bucket."""

Versions = dict[str, tuple[str, datetime]]
"""Key -> digest of the content, and when it was written."""

_ALLOWED = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


class ObjectStore:
    """A running server with one user and one bucket; its objects live as long as it does."""

    def __init__(self, address: str) -> None:
        self.port = free_port()
        self.endpoint = f"http://{address}:{self.port}"
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the server
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", address, "-p", str(self.port)],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(_FREE)},
        )
        self.key = self.secret = "unmade"

    def open(self) -> None:
        """Wait for the server, and make what is in it."""
        deadline = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                urllib.request.urlopen(f"{self.endpoint}/moto-api/", timeout=5).close()
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                assert self._process.poll() is None, f"the server ended: {self.said()[-2000:]}"
                assert time.monotonic() < deadline, f"the server does not answer: {self.said()[-2000:]}"
                time.sleep(0.05)
        users = self.client("iam")
        users.create_user(UserName="streams")
        made = users.create_access_key(UserName="streams")["AccessKey"]
        users.put_user_policy(UserName="streams", PolicyName="all", PolicyDocument=json.dumps(_ALLOWED))
        place = {"LocationConstraint": REGION}
        self.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)
        self.key, self.secret = made["AccessKeyId"], made["SecretAccessKey"]

    def client(self, service: str = "s3") -> Any:
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name=REGION,
        )

    def connection(self, *, secret: str | None = None, endpoint: str | None = None) -> str:
        """As Airflow writes a connection."""
        extra = {"region_name": REGION, "endpoint_url": endpoint or self.endpoint}
        return json.dumps(
            {"conn_type": "aws", "login": self.key, "password": secret or self.secret, "extra": json.dumps(extra)}
        )

    def put(self, folder: Path, prefix: str, *, moved: tuple[str, str] = ("", "")) -> None:
        """Every file of a local folder, below `prefix`, in the order of their names.

        Args:
            moved: a text in the files, such as the folder's own URL, and what stands for it in the store.
        """
        client = self.client()
        old, new = (text.encode() for text in moved)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                key, content = f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes()
                client.put_object(Bucket=BUCKET, Key=key, Body=content.replace(old, new) if old else content)

    @contextmanager
    def without(self, key: str) -> Iterator[None]:
        """The store lacks an object for a while."""
        client = self.client()
        body = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        client.delete_object(Bucket=BUCKET, Key=key)
        try:
            yield
        finally:
            client.put_object(Bucket=BUCKET, Key=key, Body=body)

    def keys(self, prefix: str) -> list[str]:
        return list(self.versions(prefix))

    def versions(self, prefix: str = "") -> Versions:
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        found = (each for page in pages for each in page.get("Contents", ()))
        return {each["Key"]: (each["ETag"], each["LastModified"]) for each in found}

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=20)
        self.log.close()

    def said(self) -> str:
        """Its log: each request, with the address that it came from, in the order in which they were answered."""
        return os.pread(self.log.fileno(), 1 << 30, 0).decode(errors="replace")


@contextmanager
def running(*, jars: bool = True, address: str = "127.0.0.1") -> Iterator[ObjectStore]:
    """A store; with the jars by which a driver reaches it, unless no driver is wanted."""
    if jars:
        maven.resolve(maven.POMS / "s3.xml")
    made = ObjectStore(address)
    try:
        made.open()
        yield made
    finally:
        made.kill()
