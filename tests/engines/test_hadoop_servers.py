"""The servers that the other tests here stand on: HDFS keeps a file across a restart, YARN offers its memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.servers.hadoop import NAME_NODE, RESOURCE_MANAGER, Hdfs, Yarn

pytestmark = pytest.mark.full


def test_hdfs_has_the_file_after_its_name_node_was_killed(hdfs: Hdfs, tmp_path: Path) -> None:
    """A NameNode that was killed has its files again when it is back."""
    (tmp_path / "note").write_text("kept")
    hdfs.shell("-put", str(tmp_path / "note"), "/note")
    hdfs.kill(NAME_NODE)
    hdfs.start(NAME_NODE)
    hdfs.await_open()

    assert hdfs.shell("-cat", "/note") == "kept"


def test_yarn_knows_its_node_again_after_its_resource_manager_was_killed(yarn: Yarn) -> None:
    """A ResourceManager that was killed finds the node again."""
    before = yarn.rest("cluster/metrics")["clusterMetrics"]["totalMB"]
    yarn.kill(RESOURCE_MANAGER)
    yarn.start(RESOURCE_MANAGER)
    yarn.await_open()

    assert yarn.rest("cluster/metrics")["clusterMetrics"]["totalMB"] == before == 8192
