"""Where a Hadoop configuration says that the ResourceManager's pages are."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.adapters.resource_manager import ResourceManager
from streamwarden.errors import ProcessError
from support.servers.hadoop import write_settings

PREFIX = "yarn.resourcemanager"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({f"{PREFIX}.hostname": "one"}, ["http://one:8088"]),
        ({f"{PREFIX}.hostname": "one", f"{PREFIX}.webapp.address": "one:9000"}, ["http://one:9000"]),
        ({f"{PREFIX}.hostname": "one", "yarn.http.policy": "HTTPS_ONLY"}, ["https://one:8090"]),
        (
            {
                f"{PREFIX}.ha.rm-ids": "a, b",
                f"{PREFIX}.hostname.a": "one",
                f"{PREFIX}.webapp.address.b": "two:9000",
            },
            ["http://one:8088", "http://two:9000"],
        ),
    ],
)
def test_the_pages_are_where_the_configuration_says(
    settings: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    write_settings(tmp_path / "yarn-site.xml", settings)
    assert ResourceManager.of({"HADOOP_CONF_DIR": str(tmp_path)}).urls == expected


@pytest.mark.parametrize("text", ["<configuration/>", "<configuration><property/></configuration>"])
def test_a_configuration_that_names_none_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text(text)
    with pytest.raises(ProcessError, match="no Hadoop configuration names a ResourceManager"):
        ResourceManager.of({"HADOOP_CONF_DIR": str(tmp_path)})
    with pytest.raises(ProcessError, match="HADOOP_CONF_DIR"):
        ResourceManager.of({})


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    with pytest.raises(ProcessError, match="Hadoop's settings cannot be read") as raised:
        ResourceManager.of({"HADOOP_CONF_DIR": str(tmp_path)})
    assert raised.value.where == str(tmp_path / "yarn-site.xml")
