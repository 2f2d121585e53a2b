"""Where an HDFS is asked, and what its answers mean. The real one: tests/engines/test_hdfs_reading.py."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests

from streamwarden.adapters.hadoop_settings import HadoopSettings, hadoop_settings
from streamwarden.adapters.storage.hdfs import HdfsFiles, open_hdfs
from streamwarden.errors import CheckpointError

HA = {
    "fs.defaultFS": "hdfs://lake",
    "dfs.nameservices": "other, lake",
    "dfs.ha.namenodes.lake": "a,b",
    "dfs.namenode.http-address.lake.a": "one:50070",
    "dfs.namenode.http-address.lake.b": "two:50070",
    "dfs.namenode.https-address.lake.a": "one:50470",
    "dfs.namenode.https-address.lake.b": "two:50470",
    "dfs.namenode.http-address.other": "three:50070",
    "dfs.namenode.rpc-address.other": "three:8020",
}


@pytest.mark.parametrize(
    ("settings", "host", "expected"),
    [
        ({}, "name:8020", ("http://name:9870",)),
        ({}, "name", ("http://name:9870",)),
        ({"fs.defaultFS": "hdfs://name:8020", "dfs.namenode.http-address": "web:50070"}, "name:8020", ("http://web:50070",)),
        ({"fs.defaultFS": "hdfs://name:8020", "dfs.namenode.http-address": "0.0.0.0:50070"}, "name:8020", ("http://name:50070",)),
        ({"fs.defaultFS": "hdfs://name:8020", "dfs.namenode.http-address": "web:50070"}, "far:8020", ("http://far:9870",)),
        ({"dfs.http.policy": "HTTPS_ONLY"}, "name:8020", ("https://name:9871",)),
        (HA, "lake", ("http://one:50070", "http://two:50070")),
        ({**HA, "dfs.http.policy": "HTTPS_ONLY"}, "lake", ("https://one:50470", "https://two:50470")),
        (HA, "other", ("http://three:50070",)),
        (HA, "three:8020", ("http://three:50070",)),
        (HA, "elsewhere:8020", ("http://elsewhere:9870",)),
    ],
)  # fmt: skip
def test_the_web_addresses_are_those_of_hadoops_settings(
    settings: Mapping[str, str], host: str, expected: tuple[str, ...]
) -> None:
    assert HadoopSettings(settings).web_addresses(host) == expected


def settings_in(folder: Path, **values: str) -> dict[str, str]:
    pairs = "".join(
        f"<property><name>{name}</name><value> {value} </value></property>" for name, value in values.items()
    )
    (folder / "core-site.xml").write_text(f"<configuration>{pairs}</configuration>")
    return {"HADOOP_CONF_DIR": str(folder)}


def test_the_settings_are_read_from_hadoops_folder(tmp_path: Path) -> None:
    environ = settings_in(tmp_path, **{"fs.defaultFS": "hdfs://lake"})
    (tmp_path / "hdfs-site.xml").write_text("<configuration><property><name>empty</name></property></configuration>")
    known = hadoop_settings(environ)
    assert (known.default_host, known.values["empty"], known.needs_kerberos) == ("lake", "", False)
    assert hadoop_settings({}).values == hadoop_settings({"HADOOP_CONF_DIR": "/nowhere"}).values == {}
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with pytest.raises(CheckpointError, match=r"core-site\.xml: .*cannot be read"):
        hadoop_settings(environ)


def test_a_driver_on_yarn_has_the_settings_of_its_launcher(tmp_path: Path) -> None:
    node = settings_in(tmp_path, **{"fs.defaultFS": "hdfs://node"})
    shipped = tmp_path / "__spark_conf__/__hadoop_conf__"
    shipped.mkdir(parents=True)
    settings_in(shipped, **{"fs.defaultFS": "hdfs://launcher"})
    assert hadoop_settings(node).default_host == "node"
    assert hadoop_settings({**node, "PWD": str(tmp_path)}).default_host == "launcher"


def test_a_url_without_a_host_is_in_the_default_hdfs(tmp_path: Path) -> None:
    environ = {**settings_in(tmp_path, **{"fs.defaultFS": "hdfs://name:8020"}), "HADOOP_USER_NAME": "ann"}
    fs, path = open_hdfs("hdfs:///a b/c/", environ)
    assert (fs.host, fs.user, fs.web, path) == ("name:8020", "ann", ("http://name:9870",), "hdfs://name:8020/a b/c")
    assert open_hdfs("HDFS://far:1/", environ)[1] == "hdfs://far:1"


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({}, r"names no host.*name the host, or set HADOOP_CONF_DIR"),
        ({"fs.defaultFS": "file:///"}, "names no host"),
        ({"fs.defaultFS": "hdfs://a", "hadoop.security.authentication": "kerberos"}, "asks for Kerberos"),
    ],
)
def test_what_cannot_be_reached_is_refused_with_the_reason(
    values: Mapping[str, str], match: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=match):
        open_hdfs("hdfs:///a", settings_in(tmp_path, **values))


def answer(status: int, body: object) -> requests.Response:
    made = requests.Response()
    made.status_code, made._content = status, json.dumps(body).encode()
    return made


def refusal(exception: str, status: int = 403) -> requests.Response:
    return answer(status, {"RemoteException": {"exception": exception, "message": f"a {exception}\nat java"}})


FOUND = answer(200, {"FileStatus": {"type": "FILE", "length": 3, "modificationTime": 1500}})


class Session:
    """NameNode's URL -> its answers, one after the other; the last one again and again."""

    def __init__(self, nodes: Mapping[str, list[Callable[[], requests.Response]]]) -> None:
        self.nodes, self.asked = nodes, list[str]()

    def request(self, method: str, url: str, **options: Any) -> requests.Response:
        node = url.partition("/webhdfs")[0]
        self.asked.append(node)
        answers = self.nodes[node]
        return (answers.pop(0) if len(answers) > 1 else answers[0])()


def hdfs(**nodes: list[Callable[[], requests.Response]]) -> tuple[HdfsFiles, Session]:
    session = Session({f"http://{name}": answers for name, answers in nodes.items()})
    return HdfsFiles("lake", tuple(session.nodes), "ann", session=lambda: session), session  # type: ignore[arg-type,return-value]


def unreachable() -> requests.Response:
    raise requests.ConnectionError("connection refused")


def test_the_other_name_node_is_asked_if_one_is_the_standby_or_does_not_answer() -> None:
    for first in (lambda: refusal("StandbyException"), unreachable):
        fs, session = hdfs(one=[first], two=[lambda: FOUND])
        assert (fs.stat("hdfs://lake/a").size, fs.stat("hdfs://lake/a").modified) == (3, 1.5)
        assert session.asked[:2] == ["http://one", "http://two"]


def test_a_name_node_that_takes_over_meanwhile_is_found() -> None:
    standby = lambda: refusal("StandbyException")  # noqa: E731
    fs, _ = hdfs(one=[standby, lambda: FOUND], two=[standby])
    assert fs.stat("hdfs://lake/a").name == "a"


def test_it_ends_if_none_answers() -> None:
    fs, session = hdfs(one=[unreachable], two=[lambda: refusal("StandbyException")])
    with pytest.raises(OSError, match="StandbyException"):
        fs.stat("hdfs://lake/a")
    assert len(session.asked) == 6


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (refusal("FileNotFoundException", 404), FileNotFoundError),
        (refusal("AccessControlException"), PermissionError),
        (refusal("FileAlreadyExistsException"), FileExistsError),
        (refusal("ParentNotDirectoryException"), NotADirectoryError),
        (answer(401, "log in"), PermissionError),
        (refusal("RuntimeException", 500), OSError),
        (answer(502, "a proxy's page"), OSError),
    ],
)
def test_each_refusal_is_an_error_of_files(given: requests.Response, error: type[OSError]) -> None:
    fs, session = hdfs(one=[lambda: given])
    with pytest.raises(OSError, match=r"lake/a") as raised:
        fs.stat("hdfs://lake/a")
    assert (type(raised.value), raised.value.filename, len(session.asked)) == (error, "hdfs://lake/a", 1)
    assert "at java" not in str(raised.value)
